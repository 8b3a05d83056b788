#!/usr/bin/python3
"""Checks the direction of #include lines: which folder may include which, as in docs and HACKING.md.

    check-includes.py [ROOT]     prints every violation, exits 1 if there is one
    check-includes.py --self-test  plants violations in a temporary tree and checks that each is found
"""

import pathlib
import re
import sys
import tempfile

# Folder -> folders whose headers it may include, beside its own. The longest matching folder counts.
MAY_INCLUDE = {
    "include/kiln": [],
    "ir/base": ["include/kiln"],
    "ir/graph": ["include/kiln", "ir/base"],
    "ir/tile": ["include/kiln", "ir/base"],
    "ir/templates": ["include/kiln", "ir/base", "ir/graph", "ir/tile"],
    "jit": ["include/kiln", "ir/base", "ir/tile"],
    "kernels_ref": ["include/kiln", "ir"],
    "autotune": ["include/kiln", "ir", "jit", "kernels_ref"],
    "frontend": ["include/kiln", "ir"],
    "runtime": ["include/kiln", "ir", "jit", "kernels_ref", "autotune"],
    "api": ["include/kiln", "ir", "jit", "kernels_ref", "autotune", "frontend", "runtime"],
    "tools": ["include/kiln"],
    "examples": ["include/kiln"],
    "tests": [""],
    "bench": [""],
}

# Header (a prefix) -> the only folders that may include it. Tests may where the folder they test may.
ONLY_IN = {
    "llvm/": ["jit", "tests/jit"],
    "llvm-c/": ["jit", "tests/jit"],
    "onnx/": ["frontend/onnx", "tests/frontend"],
    "google/protobuf/": ["frontend/onnx", "tests/frontend"],
    "sqlite3.h": ["jit/cache", "tests/jit"],
    "cuda": ["runtime/devices/cuda", "tests"],
    "CLI/": ["tools", "tests", "bench", "examples"],
    "gtest/": ["tests"],
    "benchmark/": ["bench"],
}

# Folder -> headers that it may not include: ir knows no threads and no files.
NOT_IN = {
    "ir": ["thread", "mutex", "shared_mutex", "condition_variable", "future", "fstream", "filesystem", "unistd.h",
           "fcntl.h", "pthread.h", "sys/"],
}

# Headers that the build makes.
GENERATED = {"kiln_generator_hash.h": "jit"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cc", ".def", ".inc"}


def folder_of(path, table):
    """The longest folder of `table` that holds `path`, or None."""
    found = [folder for folder in table if folder == "" or path == folder or path.startswith(folder + "/")]
    return max(found, key=len, default=None)


def inside(path, folders):
    return any(folder == "" or path.startswith(folder + "/") for folder in folders)


def matches(header, prefix):
    return header.startswith(prefix) if prefix.endswith(("/", "cuda")) else header == prefix


def problem(root, path, quote, header):
    """What is wrong with `path` including `header`, or None."""
    if header.startswith("kiln/"):
        return None if (root / "include" / header).is_file() else "names a public header that does not exist"
    if quote == "<":
        for prefix, folders in ONLY_IN.items():
            if matches(header, prefix) and not inside(path, folders):
                return f"only {', '.join(folders)} may include <{prefix}{'...' if prefix.endswith('/') else ''}>"
        for folder, headers in NOT_IN.items():
            if inside(path, [folder]) and any(matches(header, prefix) for prefix in headers):
                return f"{folder} knows no threads and no files"
        if inside(path, ["include/kiln"]) and ("/" in header or header.endswith(".h")):
            return "public headers need nothing but the standard library"
        return None
    if header in GENERATED:
        return None if inside(path, [GENERATED[header]]) else f"only {GENERATED[header]} may include it"
    if not (root / header).is_file():
        return "names no file; quoted includes start at the root of the repository"
    own = folder_of(path, MAY_INCLUDE)
    if own is None:
        return "its folder is not in the table of scripts/check-includes.py"
    if inside(header, [own] + MAY_INCLUDE[own]):
        return None
    return f"{own} may include {', '.join(MAY_INCLUDE[own]) or 'nothing else'}"


def violations(root):
    for top in sorted({folder.split("/")[0] for folder in MAY_INCLUDE if folder}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if match and (what := problem(root, path, match[1], match[2])):
                    yield f"{path}:{number}: {line.strip()}: {what}"


# (file, its include line, whether that is a violation)
PLANTED = [
    ("ir/tile/a.h", '#include "ir/base/b.h"', False),
    ("ir/tile/a.h", '#include "ir/graph/g.h"', True),
    ("ir/tile/a.h", '#include "jit/j.h"', True),
    ("ir/tile/passes/a.cc", '#include "ir/tile/t.h"', False),
    ("ir/graph/a.cc", "#include <mutex>", True),
    ("ir/graph/a.cc", "#include <vector>", False),
    ("ir/base/a.cc", "#include <sys/stat.h>", True),
    ("ir/templates/a.cc", '#  include "runtime/r.h"', True),
    ("jit/a.cc", '#include "ir/tile/t.h"', False),
    ("jit/a.cc", '#include "ir/graph/g.h"', True),
    ("jit/a.cc", "#include <llvm/IR/Module.h>", False),
    ("runtime/a.cc", "#include <llvm/IR/Module.h>", True),
    ("runtime/a.cc", '#include "frontend/onnx/f.h"', True),
    ("runtime/passes/a.cc", '#include "jit/j.h"', False),
    ("runtime/devices/cuda/a.cc", "#include <cuda.h>", False),
    ("runtime/devices/cpu/a.cc", "#include <cuda.h>", True),
    ("frontend/onnx/a.cc", "#include <onnx/onnx_pb.h>", False),
    ("api/a.cc", "#include <onnx/onnx_pb.h>", True),
    ("api/a.cc", '#include "frontend/onnx/f.h"', False),
    ("kernels_ref/a.cc", '#include "runtime/r.h"', True),
    ("tools/a.cc", "#include <kiln/kiln.h>", False),
    ("tools/a.cc", "#include <kiln/missing.h>", True),
    ("tools/a.cc", '#include "ir/base/b.h"', True),
    ("include/kiln/a.h", "#include <fmt/format.h>", True),
    ("include/kiln/a.h", '#include "ir/base/b.h"', True),
    ("include/kiln/a.h", "#include <kiln/kiln.h>", False),
    ("tests/ir/a_test.cc", '#include "runtime/r.h"', False),
    ("jit/cache/a.cc", '#include "kiln_generator_hash.h"', False),
    ("runtime/a.cc", '#include "kiln_generator_hash.h"', True),
    ("runtime/a.cc", "#include <sqlite3.h>", True),
    ("runtime/a.cc", '#include "r.h"', True),
]


def self_test():
    targets = ["ir/base/b.h", "ir/graph/g.h", "ir/tile/t.h", "jit/j.h", "runtime/r.h", "frontend/onnx/f.h",
               "include/kiln/kiln.h"]
    failures = 0
    for file, line, is_violation in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in targets + [file]:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("#pragma once\n")
            (root / file).write_text(f"// A comment.\n{line}\n")
            found = list(violations(root))
            if bool(found) != is_violation:
                failures += 1
                print(f"{file} with {line}: expected {'a violation' if is_violation else 'none'}, got {found}")
    print(f"self-test: {len(PLANTED)} planted includes, {failures} judged wrongly")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(violations(root))
    for line in found:
        print(line)
    print(f"includes: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
