#!/usr/bin/python3
"""Outputs of whole models against the same model computed in f64, and beside ONNX Runtime's.

    bench/check_models.py [--models mlp,resnet18 | --all] [--real FOLDER] [--kernels generated,reference]
                          [--targets native] [--threads 2] [--quick] [--reuse] [--no-peer]

Runs the generated architecture models (bench/zoo/gen_zoo.py: those that --models names, or with --all every one) and with
--real the *.onnx of a folder (those that --models names, if it is given), each at several batch sizes and lengths, with
generated kernels and with reference kernels alone. The truth is `--kernels reference64`: the reference kernels with every
float in f64 and integers exact. ONNX Runtime runs twice, with its optimisations and without; where npm or node is missing,
what needs it is left out.

An output agrees if
  - its extents are the truth's; integers and booleans are equal to the truth;
  - |got - truth| <= limit * |truth| in the L2 norm over the output, where limit is 1e-5 (2e-3 for models with 16-bit floats or
    quantised values), or 1.5 times the distance of ONNX Runtime's two runs, the larger one, if that is more;
  - each element is as near to ONNX Runtime as |got - want| <= 1e-4 + 1e-3 |want|, with or without its optimisations. An element
    that is not is excused if it is no further from the truth than 1.5 times ONNX Runtime's furthest element of this output:
    then it is not Kiln that is wrong. Models of 16-bit floats need only the other two rules: the spacing of their values is as
    wide as this tolerance.

Prints a row per run: the distances from the truth of Kiln and of ONNX Runtime's two runs, in the output where Kiln is nearest
to its limit; how many elements are apart from ONNX Runtime and how many of those are not excused; nodes on reference kernels.
The last line is `N agree, N differ, N refused`; the exit status is 0 if none differ. --quick takes the first size of each
model; --reuse takes inputs, truth and ONNX Runtime's outputs from the last call where they are there.
"""
import argparse, json, os, re, shutil, subprocess, sys, zlib

try:
    import numpy as np
except ImportError:
    print('skipped: python3-numpy is missing')
    sys.exit(0)
from peer import GENERATOR, KILN, MODELS, WORK, install_peer, make_model, peer_is_available

BATCHES = {'mlp': (1, 3, 8, 200), 'mnist_cnn': (1, 3, 8, 200), 'dlrm_small': (1, 3, 8, 200), 'wide_deep': (1, 3, 8, 200),
           'resnet50': (1, 2), 'densenet121': (1, 2), 'efficientnet_b0': (1, 3), 'yolov8n': (1, 2), 'vit_small': (1, 3)}


def sizes(name):
    """Dims of the runs of a generated model."""
    def dims(keys, rows):
        return [dict(zip(keys, row)) for row in rows]
    if name == 'bert_base':
        return dims(('batch', 'seq'), ((1, 17), (3, 32)))
    if name.startswith('bert'):
        return dims(('batch', 'seq'), ((3, 17), (1, 17), (8, 17), (1, 128), (3, 128), (8, 128)))
    if 'tagger' in name:
        return dims(('batch', 'seq'), ((2, 16), (1, 1), (5, 37)))
    if name.startswith(('gpt2', 'llama')):
        return dims(('batch', 'seq', 'past', 'total'), ((2, 4, 16, 20), (1, 1, 33, 34), (3, 17, 0, 17)))
    if name == 'unet_small':
        return dims(('batch', 'height', 'width'), ((2, 64, 96), (1, 96, 32)))
    return dims(('batch',), [(b,) for b in BATCHES.get(name, (1, 3, 8))])


# Further sizes of the real models, in the form of the manifest's arguments, beside the manifest's own.
REAL_SIZES = {
    'attention_past_state_u8s8': ['--dim batch=3 --dim seq_len=5 --dim C=1 --shape past=2x3x12x17x64'],
    'basic_pitch_nmp': ['--dim unk__749=3'],
    'bert_toy_optimized': ['--dim batch=1 --dim max_seq_len_in_batch=1 --fill input_ids=randint:0:99',
                           '--dim batch=5 --dim max_seq_len_in_batch=13 --fill input_ids=randint:0:99'],
    'fp16model_loop': ['--shape data=3x5'],
    'gpt2_embedlayer_one_attn': ['--dim batch_size=3 --dim sequence_length=5 --fill ids=randint:0:5'],
    'gpt2_past': ['--dim batch_size=3 --dim seq_len=3 --fill input_ids=randint:0:20'],
    'magika_standard_v2_1': ['--dim unk__132=3 --fill bytes=randint:0:256'],
    'ppocrv4_det': ['--shape x=2x3x96x160', '--shape x=1x3x320x224'],
    'ppocrv4_rec': ['--shape x=3x3x48x200'],
    'scan_1': ['--dim Sequence=17'],
    'silero_vad_ifless': ['--dim batch=3 --dim sequence=576'],
    'silero_vad_legacy': ['--shape input=3x512 --dim batch=3'],
    'silero_vad_v5': ['--shape input=3x512 --shape state=2x3x128'],
    'squeezenet_wml_trim': ['--dim None=3'],
    'supres_pytorch': ['--dim batch_size=3'],
    'tf_bert_qa': ['--dim batch_size=5 --fill input_ids=randint:0:20'],
    'tiny_gpt2_greedysearch': ['--dim batch_size=2 --dim sequence_length=5 --fill max_length=const:12 --fill min_length=const:1 '
                               '--fill repetition_penalty=const:1'],
}
# Runs that ONNX Runtime does not finish in reasonable time.
NO_PEER = {'nested_loops_30'}

NUMPY_TYPES = {'f16': 'f2', 'f32': 'f4', 'f64': 'f8', 'i8': 'i1', 'i16': 'i2', 'i32': 'i4', 'i64': 'i8', 'u8': 'u1', 'u16': 'u2',
               'u32': 'u4', 'u64': 'u8', 'i1': '?'}
PEER_TYPES = {'float16': 'f2', 'float32': 'f4', 'float64': 'f8', 'int8': 'i1', 'int16': 'i2', 'int32': 'i4', 'int64': 'i8',
              'uint8': 'u1', 'uint16': 'u2', 'uint32': 'u4', 'uint64': 'u8', 'bool': '?'}
QUANTISED = re.compile(r': (f8\w*|f4\w*|[iu][24])\[|Quantize|Integer|QLinear|QAttention|QGemm|NBits')


def file_name(name):
    return re.sub(r'[^A-Za-z0-9_.-]', '_', name)


class Failure(Exception):
    pass


def run(command, seconds):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure(f'took longer than {seconds} s')
    if done.returncode:
        raise Failure(f'status {done.returncode}: ' + (done.stderr.strip().splitlines() or ['?'])[-1])
    return done.stdout


def parse_arguments(arguments):
    """The manifest's form: --dim NAME=N, --shape NAME=AxB, --fill NAME=RULE."""
    given = {'--dim': {}, '--shape': {}, '--fill': {}}
    words = arguments.split() if isinstance(arguments, str) else list(arguments)
    for option, setting in zip(words[::2], words[1::2]):
        name, value = setting.rsplit('=', 1)
        given[option][name] = value
    return given


def make_input(name, dtype, extents, rule, seed):
    """Floats uniform in [-1, 1), masks 1, token types 0, positions counted, other integers in [0, 100)."""
    random = np.random.default_rng([zlib.crc32(name.encode()), seed])
    if dtype not in NUMPY_TYPES:
        raise Failure(f'no random values of {dtype} for input {name}')
    kind = np.dtype(NUMPY_TYPES[dtype])
    lower = name.lower()
    rule = rule or ('const:1' if 'mask' in lower else 'uniform:-1:1' if kind.kind == 'f' else 'arange' if 'position' in lower
                    else 'const:0' if 'type' in lower else 'const:16000' if lower == 'sr' else 'randint:0:2' if kind.kind == 'b'
                    else 'randint:0:256' if kind == 'u1' else 'randint:-128:128' if kind == 'i1' else 'randint:0:100')
    word, *limits = rule.split(':')
    limits = [float(limit) for limit in limits]
    if word == 'const':
        return np.full(extents, limits[0]).astype(kind)
    if word == 'arange':
        return np.broadcast_to(np.arange(extents[-1] if extents else 1), extents).astype(kind, order='C')
    if word == 'randint':
        return random.integers(int(limits[0]), int(limits[1]), extents).astype(kind)
    return random.uniform(limits[0], limits[1], extents).astype(kind)


class Model:
    """One model file: its inputs as Kiln sees them."""

    def __init__(self, kiln, path):
        self.path = path
        text = run([kiln, 'explain', path, '--stage', 'graph'], 600)
        self.has_halves = bool(re.search(r': b?f16\[', text))
        self.is_narrow = self.has_halves or bool(QUANTISED.search(text))
        self.inputs = []
        own = text.split('\ngraph ')[0]  # without the Graphs in nodes
        for name, dtype, shape in re.findall(r'^input %(.*): (\w+)(?:\[(.*)\])?$', own, re.MULTILINE):
            self.inputs.append((name.strip('"'), dtype, [dim.strip() for dim in shape.split(',')] if shape else []))

    def make_inputs(self, arguments, folder):
        """Writes the inputs to `folder`; returns their extents by name."""
        given, made = parse_arguments(arguments), {}
        for index, (name, dtype, dims) in enumerate(self.inputs):
            if name in given['--shape']:
                extents = [int(n) for n in given['--shape'][name].split('x')]
            else:
                extents = []
                for axis, dim in enumerate(dims):
                    by_name = given['--dim'].get(dim, given['--dim'].get(f'{name}:{axis}'))
                    extents.append(int(dim) if dim.isdigit() else int(by_name or given['--dim'].get('None', 1)))
            tensor = make_input(name, dtype, extents, given['--fill'].get(name), index)
            np.save(os.path.join(folder, file_name(name) + '.npy'), tensor)
            tensor.tofile(os.path.join(folder, file_name(name) + '.bin'))
            made[name] = extents
        return made


class Case:
    """One model at one size."""

    def __init__(self, args, model, folder, arguments):
        self.args, self.model, self.folder = args, model, folder
        os.makedirs(os.path.join(folder, 'in'), exist_ok=True)
        self.extents = model.make_inputs(arguments, os.path.join(folder, 'in'))

    def kiln(self, label, options):
        """The outputs by file name, and the number of nodes on reference kernels."""
        out = os.path.join(self.folder, label)
        shutil.rmtree(out, ignore_errors=True)
        command = [self.args.kiln, 'run', self.model.path, '--output-dir', out, '--cache', os.path.join(WORK, 'check.sqlite'), *options]
        for name in self.extents:
            command += ['--input', f'{name}={os.path.join(self.folder, "in", file_name(name) + ".npy")}']
        text = run(command, self.args.timeout)
        return load_folder(out), int(re.search(r'(\d+) nodes on reference kernels', text).group(1))

    def truth(self):
        stored = os.path.join(self.folder, 'truth')
        if self.args.reuse and os.path.isdir(stored):
            return load_folder(stored)
        return self.kiln('truth', ['--kernels', 'reference64'])[0]

    def peer(self, optimisation):
        out = os.path.join(self.folder, 'peer-' + optimisation)
        if not (self.args.reuse and os.path.exists(os.path.join(out, 'manifest.json'))):
            shutil.rmtree(out, ignore_errors=True)
            command = ['node', os.path.join(self.args.peer, 'ort_run.mjs'), self.model.path, '--opt', optimisation, '--threads', '2', '--out', out]
            for name, extents in self.extents.items():
                command += ['--in', f'{name}={os.path.join(self.folder, "in", file_name(name) + ".bin")}',
                            '--shape', f'{name}=' + 'x'.join(str(n) for n in extents)]
            run(command, self.args.peer_timeout)
        outputs = {}
        for name, info in json.load(open(os.path.join(out, 'manifest.json')))['outputs'].items():
            if info.get('type') in PEER_TYPES:
                raw = np.fromfile(os.path.join(out, info['file']), PEER_TYPES[info['type']])
                outputs[file_name(name)] = raw.reshape(info['dims'])
        return outputs


def load_folder(folder):
    return {name[:-4]: np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith('.npy')}


def difference(a, b):
    """|a - b| in f64, 0 where both are the same infinity or NaN."""
    a, b = a.astype('f8'), b.astype('f8')
    with np.errstate(invalid='ignore'):
        return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))


def distance(a, truth):
    """The relative L2 error of a."""
    error = float(np.linalg.norm(difference(a, truth)))
    size = float(np.linalg.norm(np.where(np.isfinite(truth), truth, 0).astype('f8')))
    return error / size if size > 0 else error


class Judgement:
    """What one output, or the worst of a run's outputs, came to."""

    def __init__(self, wrong=None, ours=0.0, peers=(), limit=1.0, apart=0, unexcused=0):
        self.wrong, self.ours, self.peers, self.limit, self.apart, self.unexcused = wrong, ours, peers, limit, apart, unexcused

    def merge(self, other):
        worst = self if self.ours / self.limit > other.ours / other.limit else other
        return Judgement(self.wrong or other.wrong, worst.ours, worst.peers, worst.limit, self.apart + other.apart,
                         self.unexcused + other.unexcused)


def judge(model, name, got, truth, wanted):
    """One output: `wanted` are ONNX Runtime's versions of it, none or two."""
    if got.shape != truth.shape:
        return Judgement(f'{name} has extents {got.shape}, the truth {truth.shape}')
    if truth.dtype.kind != 'f':
        unequal = int((got != truth).sum())
        return Judgement(f'{unequal} of {got.size} elements of {name} are not the truth\'s' if unequal else None)
    wanted = [want for want in wanted if want.shape == truth.shape]
    peers = [distance(want, truth) for want in wanted]
    judged = Judgement(ours=distance(got, truth), peers=peers,
                       limit=max([2e-3 if model.is_narrow else 1e-5] + [1.5 * d for d in peers if np.isfinite(d)]))
    if not judged.ours <= judged.limit:
        judged.wrong = f'{name} is too far from the truth'
    if wanted:
        apart = np.ones(got.shape, bool)
        for want in wanted:
            apart &= ~(difference(got, want) <= 1e-4 + 1e-3 * np.abs(want.astype('f8')))
        furthest = max(float(difference(want, truth).max(initial=0)) for want in wanted)
        judged.apart = int(apart.sum())
        judged.unexcused = int((apart & ~(difference(got, truth) <= 1.5 * furthest)).sum())
        if judged.unexcused and not model.has_halves:
            judged.wrong = judged.wrong or f'{judged.unexcused} elements of {name} are apart from ONNX Runtime'
    return judged


def judge_run(model, got, truth, peers):
    if sorted(got) != sorted(truth):
        return Judgement('other outputs than the truth\'s')
    total = Judgement()
    for name in truth:
        total = total.merge(judge(model, name, got[name], truth[name], [p[name] for p in peers if name in p]))
    return total


class Tally:
    def __init__(self):
        self.agree = self.differ = self.refused = 0

    def row(self, label, size, run_label, judged, fallback):
        numbers = [f'{judged.ours:.1e}', *(f'{d:.1e}' for d in judged.peers), *(['-'] * (2 - len(judged.peers)))]
        apart = f'{judged.apart} ({judged.unexcused})' if judged.peers else '-'
        self.agree += judged.wrong is None
        self.differ += judged.wrong is not None
        verdict = 'agrees' if judged.wrong is None else 'DIFFERS: ' + judged.wrong
        print(f'| {label} | {size} | {run_label} | {" | ".join(numbers)} | {judged.limit:.1e} | {apart} | {fallback} | {verdict} |', flush=True)

    def differs(self, label, size, run_label, reason):
        self.differ += 1
        print(f'| {label} | {size} | {run_label} | - | - | - | - | - | - | DIFFERS: {reason} |', flush=True)


def check_size(args, tally, label, model, arguments):
    size = re.sub(r'--(dim|shape|fill) ', '', ' '.join(arguments) if not isinstance(arguments, str) else arguments) or '-'
    folder = os.path.join(WORK, 'outputs', file_name(f'{label} {size}'))
    try:
        case = Case(args, model, folder, arguments)
        truth = case.truth()
    except Failure as failure:
        return tally.differs(label, size, 'reference64', failure)
    peers = []
    if args.peer and label not in NO_PEER:
        for optimisation in ('all', 'disabled'):
            try:
                peers.append(case.peer(optimisation))
            except Failure as failure:
                print(f'{label} {size}: ONNX Runtime ({optimisation}) {str(failure)[:150]}', file=sys.stderr, flush=True)
    runs = [('reference', ['--kernels', 'reference'])] if 'reference' in args.kernels else []
    if 'generated' in args.kernels:
        runs += [(f'{target}, {threads} threads', ['--target', target, '--threads', threads])
                 for target in args.targets.split(',') for threads in args.threads.split(',')]
    for run_label, options in runs:
        try:
            got, fallback = case.kiln('got', options)
        except Failure as failure:
            tally.differs(label, size, run_label, failure)
            continue
        tally.row(label, size, run_label, judge_run(model, got, truth, peers), fallback)
    if not args.reuse:
        shutil.rmtree(folder, ignore_errors=True)


def check_model(args, tally, label, path, all_arguments):
    try:
        model = Model(args.kiln, path)
    except Failure as failure:
        # Status 1 is an error with a message: a model that is refused. Anything else is a crash.
        if str(failure).startswith('status 1:'):
            tally.refused += 1
            print(f'{label}: refused: {str(failure)[10:250]}', flush=True)
        else:
            tally.differs(label, '-', 'load', failure)
        return
    for arguments in all_arguments[:1] if args.quick else all_arguments:
        check_size(args, tally, label, model, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models', help='names, separated by commas')
    parser.add_argument('--all', action='store_true', help='every generated model (1.8 GB)')
    parser.add_argument('--real', help='a folder of *.onnx with manifest.json')
    parser.add_argument('--zoo', help='a folder where generated models lie already')
    parser.add_argument('--kernels', default='generated,reference')
    parser.add_argument('--targets', default='native')
    parser.add_argument('--threads', default='2')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--reuse', action='store_true')
    parser.add_argument('--no-peer', action='store_true')
    parser.add_argument('--timeout', type=int, default=900, help='seconds of one run of Kiln')
    parser.add_argument('--peer-timeout', type=int, default=300)
    parser.add_argument('--kiln', default=KILN)
    args = parser.parse_args()
    args.peer = install_peer() if not args.no_peer and peer_is_available() else None
    names = args.models.split(',') if args.models else None
    tally = Tally()
    print('| model | size | kernels | from f64 | ONNX Runtime | not optimised | limit | apart (not excused) | on reference kernels | |')
    print('| --- ' * 10 + '|', flush=True)
    if args.real:
        for name, info in sorted(json.load(open(os.path.join(args.real, 'manifest.json'))).items()):
            if names is None or name in names:
                arguments = [info.get('peer_args') or '', *REAL_SIZES.get(name, [])]
                check_model(args, tally, name, os.path.join(args.real, name + '.onnx'), arguments)
    if args.all or not args.real:
        listed = subprocess.run(['/usr/bin/python3', GENERATOR, '--list'], capture_output=True, text=True).stdout.split()
        for name in names or (listed if args.all else MODELS):
            if args.all and name not in listed:
                continue
            arguments = [' '.join(f'--dim {key}={n}' for key, n in dims.items()) for dims in sizes(name)]
            check_model(args, tally, name, make_model(name, args.zoo), arguments)
    print(f'{tally.agree} agree, {tally.differ} differ, {tally.refused} refused')
    sys.exit(1 if tally.differ else 0)


if __name__ == '__main__':
    main()
