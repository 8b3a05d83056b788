#!/usr/bin/python3
"""Latency of whole models, Kiln beside ONNX Runtime: ratios of medians from interleaved rounds.

    bench/compare_models.py [--models mlp,resnet18] [--batches 1,8] [--threads 1] [--rounds 5] [--iterations 10]

Generates the models (bench/zoo/gen_zoo.py) and installs ONNX Runtime's npm package under build/; where npm or the Python
packages are missing it says so and exits 0. Every round runs both programs once, Kiln first in even rounds; a row's times
are medians over rounds of each run's median. Compare ratios, never times of different runs: machines drift.
"""
import argparse, os, statistics, sys

from peer import KILN, MODELS, WORK, install_peer, is_text, make_model, run_json


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models', default=','.join(m for m in MODELS if m != 'vit_tiny__op13'))
    parser.add_argument('--batches', default='1,8')
    parser.add_argument('--seq', type=int, default=128, help='sequence length of text models')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--iterations', type=int, default=10)
    parser.add_argument('--kiln', default=KILN)
    args = parser.parse_args()
    if not os.path.exists(args.kiln):
        sys.exit(f'{args.kiln} does not exist; build it first')
    peer = os.path.join(install_peer(), 'ort_bench.mjs')
    cache = os.path.join(WORK, 'kernels.sqlite')
    print('| model | batch | threads | Kiln ms | ONNX Runtime ms | Kiln / ONNX Runtime | range over rounds |')
    print('| --- | --- | --- | --- | --- | --- | --- |')
    for name in args.models.split(','):
        path = make_model(name)
        for batch in args.batches.split(','):
            dims = ['--dim', f'batch={batch}'] + (['--dim', f'seq={args.seq}'] if is_text(name) else [])
            common = [path, *dims, '--threads', str(args.threads), '--warmup', '3']
            kiln = [args.kiln, 'bench', *common, '--iterations', str(args.iterations), '--cache', cache, '--json']
            ort = ['node', peer, *common, '--iters', str(args.iterations)]
            ours, theirs = [], []
            for round_number in range(args.rounds):
                pair = [(ours, kiln), (theirs, ort)]
                for times, command in pair if round_number % 2 == 0 else reversed(pair):
                    times.append(run_json(command)['median_ms'])
            ratios = sorted(a / b for a, b in zip(ours, theirs))
            print(f'| {name} | {batch} | {args.threads} | {statistics.median(ours):.3f} | {statistics.median(theirs):.3f} '
                  f'| {statistics.median(ratios):.2f} | {ratios[0]:.2f} - {ratios[-1]:.2f} |', flush=True)


if __name__ == '__main__':
    main()
