#!/usr/bin/env python3
"""Fits the polynomials of ir/tile/expansions.cc and writes ir/tile/polynomials.h.

    scripts/fit_polynomials.py > ir/tile/polynomials.h
    scripts/fit_polynomials.py --check ir/tile/polynomials.h    # says whether that is what it would write

Each fit is a minimax (Remez exchange) of relative error over the interval where an expansion uses it, in
70-digit decimal arithmetic with series of our own, so nothing but the standard library is needed. Coefficients
are rounded from the lowest order up, and what is left is fitted again after each rounding.
"""

import contextlib
import io
import struct
import sys
from decimal import Decimal as D
from decimal import getcontext

getcontext().prec = 70
EPS = D(10) ** -66


# --- functions in 70 digits

def series(term, ratio):
    """Sum of term * ratio(1) * ratio(2) ... until it no longer counts."""
    total, k = D(0), 0
    while True:
        total += term
        k += 1
        term *= ratio(k)
        if abs(term) < EPS * max(abs(total), EPS):
            return total


def atan_small(x):
    """atan for |x| < 1/2."""
    total, power, k = D(0), x, 0
    while abs(power) > EPS * abs(total or 1):
        total += power / (2 * k + 1) * (-1) ** k
        power *= x * x
        k += 1
    return total


PI = 16 * atan_small(D(1) / 5) - 4 * atan_small(D(1) / 239)
LN2 = D(2).ln()
SQRT_PI = PI.sqrt()


def sin(x):
    return series(x, lambda k: -x * x / ((2 * k) * (2 * k + 1)))


def cos(x):
    return series(D(1), lambda k: -x * x / ((2 * k - 1) * (2 * k)))


def asin(x):
    """asin for |x| <= 0.75 or so."""
    total, power, k = D(0), x, 0
    while abs(power) > EPS * abs(total or 1):
        total += power / (2 * k + 1)
        k += 1
        power *= x * x * (2 * k - 1) / (2 * k)
    return total


def erf(x):
    return 2 / SQRT_PI * (-x * x).exp() * series(x, lambda k: 2 * x * x / (2 * k + 1))


def erfcx(x):
    """exp(x^2) erfc(x), x >= 0: by erf where that does not cancel, else by its continued fraction."""
    if x < D("2.5"):
        return (x * x).exp() * (1 - erf(x))
    value = x
    for k in range(700, 0, -1):
        value = x + D(k) / 2 / value
    return 1 / (SQRT_PI * value)


def two_over_pi(bits):
    """2/pi times 2^bits, as a whole number: Machin's formula on integers."""
    one = 1 << (bits + 64)

    def atan_of_inverse(n):
        total, term, k = 0, one // n, 0
        while term:
            total += term // (2 * k + 1) * (-1) ** k
            term //= n * n
            k += 1
        return total

    pi = 16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)
    return 2 * one * (1 << bits) // pi


# --- minimax

def solve(matrix, right):
    n = len(right)
    rows = [list(row) + [r] for row, r in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            if factor:
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    result = [D(0)] * n
    for i in reversed(range(n)):
        result[i] = (rows[i][n] - sum(rows[i][k] * result[k] for k in range(i + 1, n))) / rows[i][i]
    return result


def minimax(points, basis, target, weight):
    """Coefficients c that minimise max |sum c_k basis_k - target| * weight over the points, and that maximum."""
    n = len(basis)
    count = len(points)
    chosen = [round(i * (count - 1) / n) for i in range(n + 1)]
    for _ in range(40):
        matrix = [[basis[k][p] for k in range(n)] + [D(-1) ** i / weight[p]] for i, p in enumerate(chosen)]
        *coefficients, level = solve(matrix, [target[p] for p in chosen])
        error = [(sum(c * b[p] for c, b in zip(coefficients, basis)) - target[p]) * weight[p] for p in range(count)]
        worst = max(abs(e) for e in error)
        if worst <= abs(level) * D("1.001"):
            break
        # The largest error of each run of one sign; then as many runs as there are unknowns.
        runs = []
        for p in range(count):
            if runs and (error[p] > 0) == (error[runs[-1]] > 0):
                if abs(error[p]) > abs(error[runs[-1]]):
                    runs[-1] = p
            else:
                runs.append(p)
        while len(runs) > n + 1:
            if len(runs) == n + 2:
                runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
            else:
                i = min(range(len(runs) - 1), key=lambda k: max(abs(error[runs[k]]), abs(error[runs[k + 1]])))
                del runs[i:i + 2]
        if len(runs) < n + 1:
            break
        chosen = runs
    return coefficients, worst


def grid(low, high, count):
    """Chebyshev points, dense at the ends. Never an end itself, nor the middle."""
    return [(low + high) / 2 - (high - low) / 2 * cos(PI * (2 * i + 1) / (2 * count)) for i in range(count)]


def rounded(value, double):
    if double:
        return D(float(value))
    return D(struct.unpack("f", struct.pack("f", float(value)))[0])


def fit(name, double, low, high, degree, function, weight=lambda x, y: 1 / abs(y), fixed=(), note=""):
    """A polynomial of `degree` near `function`; coefficients in `fixed` are given."""
    points = grid(D(low), D(high), 24 * (degree + 2))
    values = [function(x) for x in points]
    weights = [weight(x, y) for x, y in zip(points, values)]
    coefficients = [D(c) for c in fixed]
    while len(coefficients) <= degree:
        first = len(coefficients)
        left = [y - sum(c * x ** k for k, c in enumerate(coefficients)) for x, y in zip(points, values)]
        basis = [[x ** k for x in points] for k in range(first, degree + 1)]
        found, worst = minimax(points, basis, left, weights)
        coefficients.append(rounded(found[0], double))
    emit(name, double, coefficients, worst, note or f"[{float(low):.4g}, {float(high):.4g}]")


def hexadecimal(value):
    digits, exponent = float(value).hex().split("p")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + "p" + exponent


def emit(name, double, coefficients, worst, note):
    suffix = "" if double else "f"
    values = ", ".join(hexadecimal(c) + suffix for c in coefficients)
    kind = "double" if double else "float"
    print(f"// {note}, relative error {float(worst):.2g}")
    print(f"inline constexpr {kind} {name}[] = {{{values}}};")
    print(f"{name}: {float(worst):.3g} (2^{float(worst.ln() / LN2):.1f})", file=sys.stderr)


def cut(name, value, double, parts, bits):
    """A constant as a sum of parts; all but the last have `bits` bits, so that products with small integers are
    exact."""
    left, texts = value, []
    for part in range(parts):
        piece = left
        if bits and part < parts - 1:
            exponent = 0
            while abs(left).scaleb(0) * 2 ** exponent < 2 ** (bits - 1):
                exponent += 1
            while abs(left) * D(2) ** exponent >= 2 ** bits:
                exponent -= 1
            piece = D(int(left * D(2) ** exponent)) / D(2) ** exponent
        piece = rounded(piece, double)
        texts.append(hexadecimal(piece) + ("" if double else "f"))
        left -= piece
    kind = "double" if double else "float"
    print(f"inline constexpr {kind} {name}[] = {{{', '.join(texts)}}};")


def main():
    print("// Written by scripts/fit_polynomials.py: constants and minimax polynomials of expansions.cc, lowest order")
    print("// first. The interval is that of the polynomial's argument.")
    print("#pragma once\n\n#include <cstdint>\n\n// clang-format off")
    print("namespace kiln::tile::polynomials {\n")
    half = LN2 / 2 * D("1.003")
    z_quarter = (PI / 4 * D("1.001")) ** 2
    low, high = D("0.5").sqrt() - 1, D(2).sqrt() - 1
    s_max = (high / (2 + high)) ** 2
    for double, tag in ((False, "32"), (True, "64")):
        kind = "double" if double else "float"
        cut(f"kLn2_{tag}", LN2, double, 2, 0)
        cut(f"kLn2Short_{tag}", LN2, double, 2, 41 if double else 15)
        cut(f"kLog2E_{tag}", 1 / LN2, double, 2, 0)
        cut(f"kSqrtHalf_{tag}", D("0.5").sqrt(), double, 1, 0)
        cut(f"kGeluTanhLinear_{tag}", 2 * (2 / PI).sqrt(), double, 2, 0)
        cut(f"kGeluTanhCubic_{tag}", 2 * (2 / PI).sqrt() * D("0.044715"), double, 2, 0)
        fit(f"kExp_{tag}", double, -half, half, 11 if double else 6, lambda r: r.exp(), fixed=(1, 1), note="e^r")
        fit(f"kExp2_{tag}", double, D("-.5"), D(".5"), 12 if double else 6, lambda r: (r * LN2).exp(), fixed=(1,),
            note="2^r")
        fit(f"kExpm1_{tag}", double, -half, half, 10 if double else 5, lambda r: (r.exp() - 1 - r) / (r * r),
            weight=lambda r, y: abs(r * r / (r.exp() - 1)), note="(e^r - 1 - r) / r^2")
        k, end = (D(6), D(39)) if double else (D(3), D("14.5"))
        fit(f"kNormalTail_{tag}", double, 2 * k / (end + k) - 1, 1, 22 if double else 8,
            lambda u: erfcx((2 * k / (u + 1) - k) / D(2).sqrt()) / 2 * (2 * k / (u + 1)),
            note=f"P(-t) e^(t^2/2) (t + {k}), u = {2 * k} / (t + {k}) - 1, P the normal distribution")
    fit("kLog_32", False, low, high, 8, lambda f: ((1 + f).ln() - f + f * f / 2) / f ** 3,
        weight=lambda f, y: abs(f ** 3 / (1 + f).ln()), note="(log(1 + f) - f + f^2/2) / f^3")
    fit("kLog_64", True, D(10) ** -9, s_max, 7,
        lambda z: (((1 + z.sqrt()) / (1 - z.sqrt())).ln() / z.sqrt() - 2) / z,
        weight=lambda z, y: z / 2, note="(log((1 + s) / (1 - s)) / s - 2) / z, z = s^2")
    ninth = D(1) / 9
    fit("kAtanh_32", False, D(10) ** -9, ninth, 4, lambda z: ((1 + z.sqrt()) / (1 - z.sqrt())).ln() / z.sqrt(),
        fixed=(2,), note="2 atanh(s) / s, z = s^2")
    fit("kErf_32", False, D(10) ** -9, 1, 5, lambda z: erf(z.sqrt()) / z.sqrt() - 1,
        weight=lambda z, y: 1 / (1 + y), note="erf(x) / x - 1, z = x^2")
    fit("kLog2Erfc_32", False, 1, D("3.93"), 5, lambda a: (erfcx(a) * (-a * a).exp()).ln() / LN2,
        weight=lambda a, y: LN2 * D(2) ** y / (1 - D(2) ** y), note="log2(1 - erf(x)), error relative to erf")
    fit("kErf_64", True, D(10) ** -12, 1, 12, lambda z: erf(z.sqrt()) / z.sqrt(), note="erf(x) / x, z = x^2")
    fit("kSin_64", True, D(10) ** -12, z_quarter, 6, lambda z: (sin(z.sqrt()) / z.sqrt() - 1) / z,
        weight=lambda z, y: z, note="(sin(x) / x - 1) / z, z = x^2")
    fit("kCos_64", True, D(10) ** -12, z_quarter, 6, lambda z: (cos(z.sqrt()) - 1 + z / 2) / z ** 2,
        weight=lambda z, y: z ** 2, note="(cos(x) - 1 + z/2) / z^2, z = x^2")
    fit("kSin_32", True, D(10) ** -12, z_quarter, 3, lambda z: (sin(z.sqrt()) / z.sqrt() - 1) / z,
        weight=lambda z, y: z, note="the same, for f32 in f64")
    fit("kCos_32", True, D(10) ** -12, z_quarter, 3, lambda z: (cos(z.sqrt()) - 1 + z / 2) / z ** 2,
        weight=lambda z, y: z ** 2, note="the same, for f32 in f64")
    t_max = (D(2).sqrt() - 1) ** 2 * D("1.001")
    fit("kAtan_64", True, D(10) ** -12, t_max, 12,
        lambda z: (atan_small(z.sqrt()) / z.sqrt() - 1) / z, weight=lambda z, y: z, note="(atan(x) / x - 1) / z, z = x^2")
    fit("kAsin_64", True, D(10) ** -12, D("0.2501"), 12, lambda z: (asin(z.sqrt()) / z.sqrt() - 1) / z,
        weight=lambda z, y: z, note="(asin(x) / x - 1) / z, z = x^2")
    print()
    cut("kPiHalf_64", PI / 2, True, 3, 0)
    cut("kTwoOverPi_64", 2 / PI, True, 1, 0)
    # The same in words of 64 bits, after one of zeros: enough for the greatest f64.
    words = two_over_pi(19 * 64)
    words = [0] + [words >> (64 * (18 - i)) & (2 ** 64 - 1) for i in range(19)]
    print(f"inline constexpr std::uint64_t kTwoOverPiWords[] = {{{', '.join(f'{word:#018x}' for word in words)}}};")
    # 2/pi in pieces of 28 bits: a product with an f32 is exact in f64.
    pieces = [D(int(2 / PI * 2 ** (28 * (i + 1))) - int(2 / PI * 2 ** (28 * i)) * 2 ** 28) / 2 ** (28 * (i + 1))
              for i in range(7)]
    print(f"inline constexpr double kTwoOverPiPieces[] = {{{', '.join(hexadecimal(p) for p in pieces)}}};")
    print("\n}  // namespace kiln::tile::polynomials")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        with contextlib.redirect_stdout(io.StringIO()) as written:
            main()
        with open(sys.argv[2], encoding="utf-8") as file:
            if file.read() != written.getvalue():
                sys.exit(f"{sys.argv[2]} is not what scripts/fit_polynomials.py writes")
    else:
        main()
