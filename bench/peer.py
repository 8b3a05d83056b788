"""What the comparisons with ONNX Runtime share: the peer's installation and the models."""
import json, os, shutil, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, 'build', 'compare')
MODELS = ['mlp', 'mnist_cnn', 'resnet18', 'mobilenet_v2', 'bert_mini_L6H384', 'vit_tiny__op17', 'vit_tiny__op13']
GENERATOR = os.path.join(ROOT, 'bench', 'zoo', 'gen_zoo.py')
KILN = os.path.join(ROOT, 'build', 'release', 'bin', 'kiln')


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(0)


def peer_is_available():
    return bool(shutil.which('npm') and shutil.which('node'))


def install_peer():
    """The folder with ort_bench.mjs and ort_run.mjs, ready to run. Skips where npm or node is missing."""
    if not peer_is_available():
        skip('npm or node is missing, so ONNX Runtime cannot be had')
    peer = os.path.join(WORK, 'onnxruntime')
    if not os.path.isdir(os.path.join(peer, 'node_modules', 'onnxruntime-node')):
        shutil.copytree(os.path.join(ROOT, 'bench', 'peers'), peer, dirs_exist_ok=True)
        done = subprocess.run(['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund'], cwd=peer, capture_output=True, text=True)
        if done.returncode:
            skip('npm could not install onnxruntime-node: ' + (done.stderr.strip().splitlines() or ['?'])[-1])
    return peer


def make_model(name, folder=None):
    """The path of a generated architecture model, made in `folder` if it is not there."""
    folder = folder or os.path.join(WORK, 'models')
    path = os.path.join(folder, name + '.onnx')
    if not os.path.exists(path):
        done = subprocess.run(['/usr/bin/python3', GENERATOR, folder, '--only', name], capture_output=True, text=True)
        if done.returncode:
            skip(f'cannot generate {name}: ' + (done.stderr.strip().splitlines() or ['?'])[-1])
    return path


def is_text(name):
    return 'bert' in name


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(command)} failed: {done.stderr.strip()}')
    return json.loads(done.stdout.strip().splitlines()[-1])
