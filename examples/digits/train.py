#!/usr/bin/python3
"""Trains the two digit classifiers of this example and writes them as ONNX models with a dynamic batch.

Needs Debian's python3-numpy, python3-onnx and (for the images) python3-sklearn:

    sudo apt-get install python3-numpy python3-onnx python3-sklearn
    examples/digits/train.py

Writes beside itself digits_cnn.onnx, digits_mlp.onnx, test_images.npy and test_labels.npy. The results are
committed; running this again gives the same models up to the rounding of the machine's BLAS.
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

FOLDER = pathlib.Path(__file__).resolve().parent
HELD_OUT = 360  # of 1797 images
random = np.random.default_rng(20240607)


# Each layer maps [batch, ...] to [batch, ...], keeps in forward() what backward() needs, and knows its ONNX
# node. `weights` and `gradients` are lists in the same order.


class Layer:
    weights, gradients, attributes = (), (), {}


class Convolution(Layer):
    """3x3, stride 1, zero padding 1, as one matrix product over the nine shifted images."""

    op, attributes = "Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

    def __init__(self, channels_in, channels_out):
        scale = np.sqrt(2 / (9 * channels_in))
        kernel = random.normal(0, scale, (channels_out, channels_in, 3, 3)).astype(np.float32)
        self.weights = [kernel, np.zeros(channels_out, np.float32)]

    def forward(self, x):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # n c h w 3 3
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)
        self.shape = x.shape
        kernel, bias = self.weights
        y = self.columns @ kernel.reshape(len(kernel), -1).T + bias
        return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, dy):
        n, c, h, w = self.shape
        kernel = self.weights[0]
        dy = dy.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        self.gradients = [(dy.T @ self.columns).reshape(kernel.shape), dy.sum(0)]
        windows = (dy @ kernel.reshape(len(kernel), -1)).reshape(n, h, w, c, 3, 3)
        dx = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i : i + h, j : j + w] += windows[..., i, j].transpose(0, 3, 1, 2)
        return dx[:, :, 1:-1, 1:-1]


class Dense(Layer):
    op = "Gemm"

    def __init__(self, features_in, features_out):
        matrix = random.normal(0, np.sqrt(2 / features_in), (features_in, features_out))
        self.weights = [matrix.astype(np.float32), np.zeros(features_out, np.float32)]

    def forward(self, x):
        self.x = x
        return x @ self.weights[0] + self.weights[1]

    def backward(self, dy):
        self.gradients = [self.x.T @ dy, dy.sum(0)]
        return dy @ self.weights[0].T


class Relu(Layer):
    op = "Relu"

    def forward(self, x):
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy):
        return dy * self.positive


class MaxPool(Layer):
    """2x2, stride 2. Of equal elements all receive the gradient."""

    op, attributes = "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}

    def forward(self, x):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max((3, 5))
        self.chosen = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, dy):
        n, c, h, w = dy.shape
        return (self.chosen * dy[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


class Flatten(Layer):
    op, attributes = "Flatten", {"axis": 1}

    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy):
        return dy.reshape(self.shape)


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def shifted(images):
    """Each image moved by -1, 0 or 1 pixels along either axis: more handwriting out of the same images."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = random.integers(0, 3, (len(images), 2))
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in zip(padded, moves)])


def train(layers, images, labels, epochs, batch=32, peak_rate=3e-3, decay=1e-4):
    """Softmax cross-entropy, Adam with weight decay, a learning rate that falls to zero along a cosine."""
    weights = [w for layer in layers for w in layer.weights]
    mean, square = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    steps, step = epochs * (len(images) // batch), 0
    for _ in range(epochs):
        order = random.permutation(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            logits = forward(layers, shifted(images[chosen]) / 16)
            gradient = np.exp(logits - logits.max(1, keepdims=True))
            gradient /= gradient.sum(1, keepdims=True)
            gradient[np.arange(batch), labels[chosen]] -= 1
            gradient = (gradient / batch).astype(np.float32)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            rate = peak_rate * (1 + np.cos(np.pi * step / steps)) / 2
            for w, g, m, s in zip(weights, [g for layer in layers for g in layer.gradients], mean, square):
                m += 0.1 * (g - m)
                s += 0.001 * (g * g - s)
                corrected = (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - 0.999**step)) + 1e-8)
                w -= (rate * (corrected + decay * w)).astype(np.float32)


def export(layers, name, opset):
    """pixels 0..16 [batch, 1, 8, 8] -> Mul 1/16 -> layers -> Softmax -> probabilities [batch, 10]"""
    initializers = [numpy_helper.from_array(np.float32(1 / 16), "pixel_scale")]
    nodes = [helper.make_node("Mul", ["image", "pixel_scale"], ["scaled"], "scale")]
    value = "scaled"
    for number, layer in enumerate(layers):
        node_name = f"{layer.op.lower()}_{number}"
        names = [f"{node_name}.{part}" for part in ("weight", "bias")][: len(layer.weights)]
        initializers += [numpy_helper.from_array(w, n) for w, n in zip(layer.weights, names)]
        nodes.append(helper.make_node(layer.op, [value] + names, [f"{node_name}.out"], node_name, **layer.attributes))
        value = f"{node_name}.out"
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"], "softmax", axis=1))
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        initializers,
    )
    model = helper.make_model(graph, producer_name="kiln digits", opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 7
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FOLDER / f"{name}.onnx")


def main():
    digits = load_digits()
    images, labels = digits.images.astype(np.float32)[:, None], digits.target
    order = random.permutation(len(images))
    held_out, rest = order[:HELD_OUT], order[HELD_OUT:]
    np.save(FOLDER / "test_images.npy", images[held_out])
    np.save(FOLDER / "test_labels.npy", labels[held_out].astype(np.int64))

    models = {
        "digits_cnn": (17, 80, [
            Convolution(1, 16), Relu(), MaxPool(), Convolution(16, 32), Relu(), MaxPool(), Flatten(), Dense(128, 10),
        ]),
        "digits_mlp": (13, 120, [Flatten(), Dense(64, 128), Relu(), Dense(128, 64), Relu(), Dense(64, 10)]),
    }
    for name, (opset, epochs, layers) in models.items():
        train(layers, images[rest], labels[rest], epochs)
        for part, chosen in (("training", rest), ("held-out", held_out)):
            right = forward(layers, images[chosen] / 16).argmax(1) == labels[chosen]
            print(f"{name}: {right.mean():.2%} of {len(chosen)} {part} images")
        export(layers, name, opset)


if __name__ == "__main__":
    main()
