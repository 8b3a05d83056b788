#!/usr/bin/python3
"""Time to make Sessions of large generated graphs, and their first run: is it close to linear in the nodes?

    bench/large_graphs.py [--kiln COMMAND] [--shapes chain,dense,...] [--sizes 1250,2500,...] [--first-run-limit 10000]

Each shape of graph is made at each size by python3-onnx. Loading (the whole of kiln explain) compiles nothing; the first run
compiles each kernel that the graph needs once, has no cache, and is measured up to the given number of nodes. Prints a row per
graph; the exit status tells whether each load stays within its bound: 5 s up to 10,000 nodes, 30 s up to 50,000, and at most 2.5
times the processor time a node of the smallest size that takes more than noise.
"""
import argparse, json, os, resource, subprocess, sys, tempfile, time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

KILN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'build', 'release', 'bin', 'kiln')
WIDTH = 16
BOUNDS = ((10_000, 5.0), (50_000, 30.0))
TOLERATED_GROWTH = 2.5  # of the time a node, where quadratic would be 5: the largest graphs leave the caches
NOISE = 0.02  # seconds


class Builder:
    """Nodes over a first value x of batch x WIDTH."""

    def __init__(self):
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], ['x'], []

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f'v{len(self.nodes)}_{i}' for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        name = f'c{len(self.initializers)}'
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def model(self, result=None):
        def value(name):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ['batch', WIDTH])
        outputs = self.outputs or [result]
        graph = helper.make_graph(self.nodes, 'large', [value(i) for i in self.inputs],
                                  [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)


def chain(size):
    """Elementwise nodes, one after the other."""
    b, v = Builder(), 'x'
    for i in range(size):
        v = b.node(('Sigmoid', 'Abs', 'Neg', 'Tanh')[i % 4], v)
    return b.model(v)


def scaled(size):
    """Elementwise nodes with constants of their own."""
    b, v = Builder(), 'x'
    for i in range(size // 2):
        v = b.node('Mul', v, b.constant(np.float32(1 + i / size)))
        v = b.node('Add', v, b.constant(np.full(WIDTH, i / size, np.float32)))
    return b.model(v)


def dense(size):
    """MatMul, Add, Relu, with weights of their own."""
    b, v, rng = Builder(), 'x', np.random.default_rng(1)
    for _ in range(size // 3):
        v = b.node('MatMul', v, b.constant(rng.normal(0, 0.25, (WIDTH, WIDTH)).astype(np.float32)))
        v = b.node('Add', v, b.constant(rng.normal(size=WIDTH).astype(np.float32)))
        v = b.node('Relu', v)
    return b.model(v)


def wide(size):
    """Short branches from one input, summed."""
    b = Builder()
    ends = [b.node('Sigmoid', b.node('Mul', 'x', b.constant(np.float32(i)))) for i in range(size // 3)]
    total = ends[0]
    for end in ends[1:]:
        total = b.node('Add', total, end)
    return b.model(total)


def joined(size):
    """The same, joined by one node."""
    b = Builder()
    return b.model(b.node('Concat', *[b.node('Sigmoid', b.node('Mul', 'x', b.constant(np.float32(i)))) for i in range(size // 2)], axis=1))


def ladder(size):
    """Each node reads the two before it: everything depends on everything."""
    b = Builder()
    first, second = b.node('Sigmoid', 'x'), b.node('Tanh', 'x')
    for _ in range(size - 2):
        first, second = second, b.node('Mul', first, second)
    return b.model(second)


def open_ended(size):
    """As many inputs and outputs as nodes."""
    b = Builder()
    b.inputs = [f'x{i}' for i in range(size)]
    b.outputs = [b.node('Relu', name) for name in b.inputs]
    return b.model()


def residual(size):
    """Blocks of a normalised row, a softmax and a sum with what came in."""
    b, v = Builder(), 'x'
    scale, bias = b.constant(np.ones(WIDTH, np.float32)), b.constant(np.zeros(WIDTH, np.float32))
    for _ in range(size // 3):
        v = b.node('Add', v, b.node('Softmax', b.node('LayerNormalization', v, scale, bias), axis=-1))
    return b.model(v)


def views(size):
    """Shape arithmetic and views, which leave no work."""
    b, v = Builder(), 'x'
    axes, minus_one = b.constant(np.array([0], np.int64)), b.constant(np.array([-1], np.int64))
    width = b.constant(np.array([WIDTH], np.int64))
    for _ in range(size // 7):
        batch = b.node('Slice', b.node('Shape', v), axes, b.constant(np.array([1], np.int64)))
        split = b.node('Reshape', v, b.node('Concat', batch, minus_one, b.constant(np.array([4], np.int64)), axis=0))
        v = b.node('Relu', b.node('Reshape', split, b.node('Concat', batch, width, axis=0)))
    return b.model(v)


def constants(size):
    """Nodes over constants alone: folding makes one value of them."""
    b = Builder()
    v = b.constant(np.ones(WIDTH, np.float32))
    for _ in range(size - 1):
        v = b.node('Tanh', v)
    return b.model(b.node('Add', 'x', v))


SHAPES = {f.__name__: f for f in (chain, scaled, dense, wide, joined, ladder, open_ended, residual, views, constants)}


def run(command):
    """Output, seconds on the clock, and seconds of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    elapsed = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f'exit status {done.returncode}')
    return done.stdout, elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(kiln, model, run_first):
    """Seconds and processor seconds to load, and what the first run says, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'large.onnx')
        with open(path, 'wb') as file:
            file.write(model.SerializeToString())
        _, load, load_cpu = run([kiln, 'explain', path, '--stage', 'regions', '--cache', 'off'])
        first = None
        if run_first:
            text, _, _ = run([kiln, 'bench', path, '--dim', 'batch=2', '--warmup', '0', '--iterations', '1', '--json', '--cache', 'off'])
            first = json.loads(text)
    return load, load_cpu, first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kiln', default=KILN)
    parser.add_argument('--shapes', default=','.join(SHAPES))
    parser.add_argument('--sizes', default='2500,10000,50000')
    parser.add_argument('--first-run-limit', type=int, default=10_000)
    arguments = parser.parse_args()
    good = True
    print(f'{"shape":12} {"nodes":>7} {"load ms":>9} {"cpu us a node":>14} {"growth":>7} {"first run ms":>12} {"kernels":>8} {"fallback":>8}')
    for name in arguments.shapes.split(','):
        base = None
        for size in map(int, arguments.sizes.split(',')):
            model = SHAPES[name](size)
            nodes = len(model.graph.node)
            try:
                load, cpu, first = measure(arguments.kiln, model, size <= arguments.first_run_limit)
            except RuntimeError as failure:
                print(f'{name:12} {nodes:7} {failure}', flush=True)
                good = False
                continue
            growth = cpu / nodes / base if base else 1.0
            if base is None and cpu > NOISE:
                base = cpu / nodes
            bound = next((seconds for limit, seconds in BOUNDS if nodes <= limit + 1), None)
            within = (bound is None or load <= bound) and growth <= TOLERATED_GROWTH
            columns = [f'{first["first_run_ms"]:.0f}', first['kernels_compiled'], first['fallback_nodes']] if first else ['-'] * 3
            print(f'{name:12} {nodes:7} {1000 * load:9.0f} {1e6 * cpu / nodes:14.1f} {growth:7.2f} {columns[0]:>12} {columns[1]:>8} {columns[2]:>8}{"" if within else "  TOO SLOW"}', flush=True)
            good = good and within
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
