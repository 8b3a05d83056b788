#!/usr/bin/python3
"""Writes the seeds of the model fuzzer, tests/fuzz/models: small models that show each thing that a file can hold.

    tests/fuzz/make_models.py

The digits models of examples/digits with few channels, then shape arithmetic, functions, subgraphs, sparse and external data,
quantisation, old forms of operators, and constants to fold. Files named found-* are inputs that once broke the loader: they
are kept by hand.
"""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'models')
RANDOM = np.random.default_rng(1)


def tensor(name, *extents, dtype=np.float32):
    return numpy_helper.from_array(RANDOM.normal(size=extents).astype(dtype), name)


def integers(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def value(name, extents, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, extents)


def node(op, inputs, outputs, **attributes):
    absent = {'-': ''}  # an operand that is left out
    return helper.make_node(op, [absent.get(i, i) for i in inputs.split()], outputs.split(), **attributes)


def save(name, nodes, inputs, outputs, initializers=(), opset=17, functions=(), sparse=(), domains=()):
    graph = helper.make_graph(nodes, name, inputs, [value(o, None) for o in outputs.split()], list(initializers), sparse_initializer=list(sparse))
    opsets = [helper.make_opsetid('', opset)] + [helper.make_opsetid(d, 1) for d in domains]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions), producer_name='kiln')
    with open(os.path.join(FOLDER, name + '.onnx'), 'wb') as file:
        file.write(model.SerializeToString())


def digits():
    image = value('image', ['batch', 1, 8, 8])
    save('digits_cnn', [
        node('Conv', 'image w1 b1', 'c1', pads=[1, 1, 1, 1]), node('Relu', 'c1', 'r1'),
        node('MaxPool', 'r1', 'p1', kernel_shape=[2, 2], strides=[2, 2]),
        node('Conv', 'p1 w2', 'c2', auto_pad='SAME_UPPER'), node('BatchNormalization', 'c2 s b2 mean variance', 'n2'),
        node('GlobalAveragePool', 'n2', 'g'), node('Flatten', 'g', 'f'), node('Gemm', 'f w3 b3', 'logits', transB=1), node('Softmax', 'logits', 'y'),
    ], [image], 'y', [tensor('w1', 2, 1, 3, 3), tensor('b1', 2), tensor('w2', 3, 2, 3, 3), tensor('s', 3), tensor('b2', 3), tensor('mean', 3),
                      numpy_helper.from_array(np.ones(3, np.float32), 'variance'), tensor('w3', 4, 3), tensor('b3', 4)])
    save('digits_mlp', [node('Flatten', 'image', 'f'), node('MatMul', 'f w1', 'm'), node('Add', 'm b1', 'a'), node('Relu', 'a', 'r'),
                        node('MatMul', 'r w2', 'logits'), node('ArgMax', 'logits', 'y', axis=1, keepdims=0)],
         [image], 'y logits', [tensor('w1', 64, 3), tensor('b1', 3), tensor('w2', 3, 4)])


def shapes():
    save('shapes', [
        node('Shape', 'x', 's'), node('Gather', 's first', 'n', axis=0), node('Unsqueeze', 'n zero', 'n1'), node('Concat', 'n1 rest', 't', axis=0),
        node('Reshape', 'x t', 'r'), node('Transpose', 'r', 'p', perm=[0, 2, 1]), node('Slice', 'p starts ends axes', 'c'),
        node('Expand', 'c wide', 'e'), node('Squeeze', 'e', 'q'), node('Split', 'x', 'a b', axis=1), node('Tile', 'a twice', 'y'),
    ], [value('x', ['n', 12])], 'q y b', [integers('first', 0), integers('zero', [0]), integers('rest', [3, 4]), integers('starts', [1]), integers('ends', [9]),
                                          integers('axes', [1]), integers('wide', [1, 3, 3]), integers('twice', [1, 2])])
    save('sizes_while_running', [node('NonZero', 'x', 'i'), node('Transpose', 'i', 't'), node('GatherND', 'x t', 'g'), node('Shape', 'g', 's'),
                                 node('ConstantOfShape', 's', 'z'), node('TopK', 'g one', 'v p'), node('Range', 'a n d', 'r'), node('Pad', 'v w', 'y')],
         [value('x', ['n', None]), value('n', [], TensorProto.INT64)], 'z y r p', [integers('one', [1]), integers('a', 0), integers('d', 1), integers('w', [1, 2])])


def functions_and_subgraphs():
    body = [node('LeakyRelu', 'a', 't'), node('Add', 't b', 'r')]
    reference = helper.make_attribute('alpha', 0.5)
    reference.ref_attr_name = 'slope'
    reference.ClearField('f')
    body[0].attribute.append(reference)
    bend = helper.make_function('local', 'Bend', ['a', 'b'], ['r'], body, [helper.make_opsetid('', 17)], ['slope'])
    twice = helper.make_function('local', 'Twice', ['a'], ['r'], [helper.make_node('Bend', ['a', 'a'], ['t'], domain='local', slope=0.1),
                                                                   helper.make_node('Bend', ['t', 'a'], ['r'], domain='local')],
                                 [helper.make_opsetid('', 17), helper.make_opsetid('local', 1)])
    save('functions', [helper.make_node('Twice', ['x'], ['h'], domain='local'), node('Relu', 'h', 'y')], [value('x', ['n', 2])], 'y',
         functions=[bend, twice], domains=['local'])
    branch = [helper.make_graph([node(op, 'x', op)], op, [], [value(op, None)]) for op in ('Relu', 'Neg')]
    step = helper.make_graph([node('Add', 'carried x', 'sum'), node('Identity', 'going', 'on')], 'step',
                             [value('i', [], TensorProto.INT64), value('going', [], TensorProto.BOOL), value('carried', None)],
                             [value('on', [], TensorProto.BOOL), value('sum', None)])
    save('subgraphs', [node('If', 'c', 'b', then_branch=branch[0], else_branch=branch[1]), node('Loop', 'count c b', 'y', body=step)],
         [value('x', ['n']), value('c', [], TensorProto.BOOL)], 'y', [integers('count', 3)])
    save('sequences', [node('SplitToSequence', 'x one', 's'), node('SequenceInsert', 's x', 't'), node('SequenceAt', 't zero', 'y'),
                       node('ConcatFromSequence', 't', 'z', axis=0)], [value('x', [3, 2])], 'y z', [integers('one', 1), integers('zero', 0)])


def data():
    sparse = helper.make_sparse_tensor(tensor('sparse', 2), integers('at', [[0, 1], [2, 0]]), [3, 2])
    external = tensor('outside', 2)
    external.ClearField('raw_data')
    external.data_location = TensorProto.EXTERNAL
    for key, text in (('location', 'weights.bin'), ('offset', '16'), ('length', '8')):
        external.external_data.add(key=key, value=text)
    save('external', [node('Add', 'x outside', 'y')], [value('x', ['n', 2])], 'y', [external])
    save('data', [node('MatMul', 'x sparse', 'm'), node('Cast', 'm', 'h', to=TensorProto.FLOAT16), node('Add', 'h half', 'y')],
         [value('x', ['n', 3]), value('half', [2], TensorProto.FLOAT16)], 'y', [helper.make_tensor('half', TensorProto.FLOAT16, [2], [1, 2])], sparse=[sparse])
    names = helper.make_tensor('names', TensorProto.STRING, [2], [b'a', b'bc'])
    save('kinds', [node('Constant', '', 'k', value=tensor('k', 2, dtype=np.float64)), node('Constant', '', 'm', value_ints=[1, 2]),
                   node('Cast', 'm', 'c', to=TensorProto.DOUBLE), node('Add', 'k c', 'y'), node('Identity', 'names', 'z')], [], 'y z', [names])
    quantised = [numpy_helper.from_array(np.arange(6, dtype=np.int8).reshape(3, 2), 'w'), numpy_helper.from_array(np.float32(0.1), 's'),
                 numpy_helper.from_array(np.uint8(3), 'z'), numpy_helper.from_array(np.int8(0), 'wz')]
    save('quantised', [node('QuantizeLinear', 'x s z', 'q'), node('MatMulInteger', 'q w z wz', 'i'), node('QLinearMatMul', 'q s z w s wz s z', 'p'),
                       node('DequantizeLinear', 'p s z', 'd'), node('DynamicQuantizeLinear', 'd', 'e f g')], [value('x', ['n', 3])], 'i e f g', quantised)


def forms():
    save('old_forms', [node('Add', 'x v', 'a', broadcast=1, axis=1), node('Reshape', 'a', 'r', shape=[0, -1]), node('Dropout', 'r', 'd', is_test=1),
                       node('Clip', 'd', 'c', min=0.0, max=6.0), node('Pad', 'c', 'p', paddings=[0, 1, 0, 1]), node('Softmax', 'p', 'y', axis=1)],
         [value('x', [2, 3, 4])], 'y', [tensor('v', 3)], opset=1)
    save('upsample', [node('Upsample', 'x scales', 'u', mode='nearest'), node('Slice', 'u', 's', starts=[0], ends=[3], axes=[2]),
                      node('ReduceSum', 's', 'r', axes=[1], keepdims=0), node('Squeeze', 'r', 'y', axes=[0])],
         [value('x', [1, 2, 3, 3])], 'y', [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), 'scales')], opset=9)
    save('newest', [node('LayerNormalization', 'x w', 'l'), node('Gelu', 'l', 'g', approximate='tanh'), node('Resize', 'image - scales', 'r', mode='linear'),
                    node('GridSample', 'r grid', 'y'), node('Einsum', 'x x', 'e', equation='ij,kj->ik'), node('CumSum', 'e zero', 'z')],
         [value('x', ['n', 4]), value('image', ['n', 1, 4, 4]), value('grid', ['n', 2, 2, 2])], 'g y z',
         [tensor('w', 4), numpy_helper.from_array(np.array([1, 1, 2, 0.5], np.float32), 'scales'), integers('zero', 0)], opset=20)
    save('microsoft', [helper.make_node('SkipLayerNormalization', ['x', 'x', 'w'], ['s'], domain='com.microsoft'),
                       helper.make_node('FastGelu', ['s', 'w'], ['g'], domain='com.microsoft'),
                       helper.make_node('FusedMatMul', ['g', 'm'], ['y'], domain='com.microsoft', transB=1, alpha=0.5)],
         [value('x', ['b', 's', 4])], 'y', [tensor('w', 4), tensor('m', 3, 4)], domains=['com.microsoft'])


def foldable():
    save('foldable', [node('Conv', 'image w', 'c', pads=[1, 1, 1, 1], strides=[2, 2]), node('MaxPool', 'c', 'p', kernel_shape=[2, 2], ceil_mode=1),
                      node('Resize', 'p - scales', 'r', mode='cubic'), node('Concat', 'r r', 'k', axis=1), node('Expand', 'k wide', 'e'),
                      node('Pad', 'e pads', 'f', mode='reflect'), node('Gather', 'f i', 'g', axis=2), node('ReduceMean', 'g', 'm', axes=[1]),
                      node('TopK', 'm one', 't at'), node('OneHot', 'at depth hot', 'o'), node('ConvTranspose', 'image w', 'v'), node('Add', 'x t', 'y')],
         [value('x', ['n', 1, 1, 1])], 'y o v', [tensor('image', 1, 1, 4, 4), tensor('w', 1, 1, 3, 3), integers('wide', [3, 1, 1, 1]), integers('pads', [0, 0, 1, 1] * 2),
                                                 numpy_helper.from_array(np.array([1, 1, 3, 3], np.float32), 'scales'), integers('i', [0, -1]),
                                                 integers('one', [1]), integers('depth', 3), numpy_helper.from_array(np.array([0, 1], np.float32), 'hot')])


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for make in (digits, shapes, functions_and_subgraphs, data, forms, foldable):
        make()


if __name__ == '__main__':
    main()
