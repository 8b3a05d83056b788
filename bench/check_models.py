#!/usr/bin/python3
"""Outputs of whole models, Kiln beside ONNX Runtime: |got - want| <= 1e-4 + 1e-3 |want|, element by element.

    bench/check_models.py [--models mlp,resnet18] [--real FOLDER] [--targets x86-64-v4,x86-64-v3] [--threads 1,2]

Runs the generated architecture models (bench/zoo/gen_zoo.py) at several sizes, or with --real every *.onnx of a folder with
the arguments that its manifest.json gives. Inputs are ONNX Runtime's seeded ones. Prints a row per run; the exit status
tells whether all agree. Where npm, node or the Python packages are missing it says so and exits 0.
"""
import argparse, json, os, re, subprocess, sys

try:
    import numpy as np
except ImportError:
    print('skipped: python3-numpy is missing')
    sys.exit(0)
from peer import KILN, MODELS, WORK, install_peer, is_text, make_model


def sizes(name):
    if is_text(name):
        return [['--dim', f'batch={b}', '--dim', f'seq={s}'] for b in (1, 3, 8) for s in (17, 128)]
    return [['--dim', f'batch={b}'] for b in ((1, 3, 8, 200) if name in ('mlp', 'mnist_cnn') else (1, 3, 8))]


def run_peer(peer, model, arguments, folder):
    os.makedirs(folder, exist_ok=True)
    command = ['node', os.path.join(peer, 'ort_run.mjs'), model, *arguments, '--out', folder]
    done = subprocess.run(command + ['--pb', 'true', '--dump-inputs', 'true'], capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ['?'])[-1]
    # Outputs as raw elements too: they need no protobuf here.
    subprocess.run(command, capture_output=True, text=True, check=True)
    return json.load(open(os.path.join(folder, 'manifest.json'))), None


def compare(folder, outputs, got_folder):
    """The worst violation as a text, or None."""
    for name, info in outputs.items():
        if not info.get('file'):
            continue
        dtype = {'float32': 'f4', 'float64': 'f8', 'int64': 'i8', 'int32': 'i4', 'bool': 'u1', 'uint8': 'u1', 'int8': 'i1', 'float16': 'f2'}.get(info['type'])
        if dtype is None:
            continue
        safe = re.sub(r'[^A-Za-z0-9_.-]', '_', name)
        want = np.fromfile(os.path.join(folder, safe + '.bin'), dtype).reshape(info['dims']).astype('f8')
        got = np.load(os.path.join(got_folder, safe + '.npy')).astype('f8')
        if got.shape != want.shape:
            return f'{name}: extents {got.shape}, expected {want.shape}'
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        bad = ~same & ~(np.abs(got - want) <= 1e-4 + 1e-3 * np.abs(want))
        if bad.any():
            at = np.argmax(bad)
            return f'{name}: {bad.sum()} of {bad.size} elements differ, the first {got.flat[at]} instead of {want.flat[at]}'
    return None


def check(kiln, peer, label, model, arguments, targets, threads):
    folder = os.path.join(WORK, 'outputs', label)
    manifest, failure = run_peer(peer, model, arguments, folder)
    if manifest is None:
        print(f'{label}: not comparable, ONNX Runtime says: {failure[:150]}', flush=True)
        return True
    good = True
    inputs = [a for name, info in manifest['inputs'].items() for a in ('--input', f'{name}={os.path.join(folder, "in." + re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".pb")}')]
    for target in targets:
        for count in threads:
            got = os.path.join(folder, f'kiln-{target}-{count}')
            command = [kiln, 'run', model, *inputs, '--target', target, '--threads', str(count), '--output-dir', got, '--cache', os.path.join(WORK, 'check.sqlite')]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode < 0 or done.returncode > 2:
                print(f'{label} {target} threads {count}: CRASH {done.returncode}', flush=True)
                good = False
                continue
            if done.returncode:
                print(f'{label}: refused: {done.stderr.strip()[:200]}', flush=True)
                return True
            wrong = compare(folder, manifest['outputs'], got)
            fallback = re.search(r'(\d+) nodes on reference kernels', done.stdout).group(1)
            print(f'{label} {" ".join(arguments)} {target} threads {count}: {wrong or "agrees"}; {fallback} nodes on reference kernels', flush=True)
            good = good and wrong is None
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models', default=','.join(MODELS))
    parser.add_argument('--real', help='a folder of *.onnx with manifest.json')
    parser.add_argument('--targets', default='x86-64-v4,x86-64-v3')
    parser.add_argument('--threads', default='1,2')
    parser.add_argument('--kiln', default=KILN)
    args = parser.parse_args()
    peer = install_peer()
    targets, threads = args.targets.split(','), args.threads.split(',')
    good = True
    if args.real:
        manifest = json.load(open(os.path.join(args.real, 'manifest.json')))
        only = None if args.models == ','.join(MODELS) else args.models.split(',')
        for name, info in sorted(manifest.items()):
            if only is None or name in only:
                arguments = info.get('peer_args') or []
                arguments = arguments.split() if isinstance(arguments, str) else arguments
                good = check(args.kiln, peer, name, os.path.join(args.real, name + '.onnx'), arguments, targets, threads) and good
    else:
        for name in args.models.split(','):
            for arguments in sizes(name):
                label = name + ''.join(a for a in arguments if a != '--dim').replace('=', '')
                good = check(args.kiln, peer, label, make_model(name), arguments, targets, threads) and good
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
