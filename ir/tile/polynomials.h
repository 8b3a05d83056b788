// Written by scripts/fit_polynomials.py: constants and minimax polynomials of expansions.cc, lowest order
// first. The interval is that of the polynomial's argument.
#pragma once

#include <cstdint>

// clang-format off
namespace kiln::tile::polynomials {

inline constexpr float kLn2_32[] = {0x1.62e43p-1f, -0x1.05c61p-29f};
inline constexpr float kLn2Short_32[] = {0x1.62e4p-1f, 0x1.7f7d1cp-20f};
inline constexpr float kLog2E_32[] = {0x1.715476p+0f, 0x1.4ae0cp-26f};
inline constexpr float kSqrtHalf_32[] = {0x1.6a09e6p-1f};
inline constexpr float kGeluTanhLinear_32[] = {0x1.988454p+0f, -0x1.857936p-25f};
inline constexpr float kGeluTanhCubic_32[] = {0x1.2444f2p-4f, 0x1.49b16ap-29f};
// e^r, relative error 4.1e-09
inline constexpr float kExp_32[] = {0x1p+0f, 0x1p+0f, 0x1.fffffcp-2f, 0x1.555488p-3f, 0x1.55585ap-5f, 0x1.123f58p-7f, 0x1.6a79d8p-10f};
// 2^r, relative error 5.3e-09
inline constexpr float kExp2_32[] = {0x1p+0f, 0x1.62e432p-1f, 0x1.ebfbe6p-3f, 0x1.c6ada8p-5f, 0x1.3b21c8p-7f, 0x1.5fbc94p-10f, 0x1.4be0b6p-13f};
// (e^r - 1 - r) / r^2, relative error 3.4e-09
inline constexpr float kExpm1_32[] = {0x1p-1f, 0x1.55552cp-3f, 0x1.555502p-5f, 0x1.11568cp-7f, 0x1.6d2e7ep-10f, 0x1.392d5ap-13f};
// P(-t) e^(t^2/2) (t + 3), u = 6 / (t + 3) - 1, P the normal distribution, relative error 6.2e-08
inline constexpr float kNormalTail_32[] = {0x1.754a74p-1f, 0x1.04c734p-1f, 0x1.d714bap-3f, 0x1.831fbp-5f, -0x1.5791acp-7f, -0x1.c5e07cp-8f, 0x1.1d10b6p-10f, 0x1.da9532p-11f, -0x1.1fd4cp-12f};
inline constexpr double kLn2_64[] = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr double kLn2Short_64[] = {0x1.62e42fefa3p-1, 0x1.3de6af278ece6p-42};
inline constexpr double kLog2E_64[] = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr double kSqrtHalf_64[] = {0x1.6a09e667f3bcdp-1};
inline constexpr double kGeluTanhLinear_64[] = {0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54};
inline constexpr double kGeluTanhCubic_64[] = {0x1.2444f2a4d8b4bp-4, -0x1.6c843a29d1c7p-61};
// e^r, relative error 6.2e-18
inline constexpr double kExp_64[] = {0x1p+0, 0x1p+0, 0x1.000000000000ap-1, 0x1.55555555554d8p-3, 0x1.5555555550526p-5, 0x1.1111111123305p-7, 0x1.6c16c1855cc0ep-10, 0x1.a01a0176a11e5p-13, 0x1.a01995a5aa55p-16, 0x1.71de1f55ca633p-19, 0x1.28b25ee24578ep-22, 0x1.af967b3545561p-26};
// 2^r, relative error 1.1e-18
inline constexpr double kExp2_64[] = {0x1p+0, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58ep-3, 0x1.c6b08d704a1c3p-5, 0x1.3b2ab6fba526bp-7, 0x1.5d87fe7879fd2p-10, 0x1.430912f6d5a1p-13, 0x1.ffcbfd24aeda2p-17, 0x1.62c02a4951942p-20, 0x1.b5238ccdae75ep-24, 0x1.e4ac6920a565dp-28, 0x1.ebd84aa5835d7p-32, 0x1.fa1813d2f827ap-36};
// (e^r - 1 - r) / r^2, relative error 3.6e-19
inline constexpr double kExpm1_64[] = {0x1p-1, 0x1.555555555555ap-3, 0x1.555555555555dp-5, 0x1.111111110f0a4p-7, 0x1.6c16c16c11808p-10, 0x1.a01a01b26d43fp-13, 0x1.a01a01c3c21dep-16, 0x1.71ddf1c6d3fb2p-19, 0x1.27e49751f5724p-22, 0x1.af6a46751a438p-26, 0x1.1fdebae827938p-29};
// P(-t) e^(t^2/2) (t + 6), u = 12 / (t + 6) - 1, P the normal distribution, relative error 1.4e-16
inline constexpr double kNormalTail_64[] = {0x1.8e010d2b8a0eap-1, 0x1.66eaa7d096406p-1, 0x1.234fe3fd9251cp-1, 0x1.a7d657726a2f8p-2, 0x1.1267d738422aap-2, 0x1.38b069db98f26p-3, 0x1.33e7777479937p-4, 0x1.fba9d53db315ap-6, 0x1.48a83c56a8fbp-7, 0x1.1764c9a8952afp-9, 0x1.13b8a31539e01p-15, -0x1.7c55d31277a3fp-13, -0x1.0f911b47cedfbp-14, -0x1.2325086862cp-20, 0x1.c74f90c07ea8ap-18, 0x1.e8de775c84044p-20, -0x1.bec06e14014f7p-22, -0x1.6f6e79598e542p-22, 0x1.9e838e9b29498p-29, 0x1.2b57575abf837p-24, -0x1.e855f9fba336cp-29, -0x1.edb2aff6337dp-27, 0x1.2f6116cc57f58p-28};
// (log(1 + f) - f + f^2/2) / f^3, relative error 1.5e-09
inline constexpr float kLog_32[] = {0x1.555548p-2f, -0x1.00006ep-2f, 0x1.99a53ep-3f, -0x1.552fd8p-3f, 0x1.230414p-3f, -0x1.00f8dp-3f, 0x1.efd4f2p-4f, -0x1.bf91b6p-4f, 0x1.b6f78ap-5f};
// (log((1 + s) / (1 - s)) / s - 2) / z, z = s^2, relative error 9.7e-21
inline constexpr double kLog_64[] = {0x1.5555555555555p-1, 0x1.9999999999d11p-2, 0x1.2492492439886p-2, 0x1.c71c724b51ff5p-3, 0x1.745ce1cf73c03p-3, 0x1.3b2023d993fbep-3, 0x1.0f673feff5f0ep-3, 0x1.0f0ed20e4ba38p-3};
// 2 atanh(s) / s, z = s^2, relative error 4.5e-09
inline constexpr float kAtanh_32[] = {0x1p+1f, 0x1.555502p-1f, 0x1.99d1cap-2f, 0x1.1ec07p-2f, 0x1.1ec908p-2f};
// erf(x) / x - 1, z = x^2, relative error 4.1e-08
inline constexpr float kErf_32[] = {0x1.06eba2p-3f, -0x1.81267p-2f, 0x1.ce0888p-4f, -0x1.b599e8p-6f, 0x1.42161ep-8f, -0x1.2692f4p-11f};
// log2(1 - erf(x)), error relative to erf, relative error 1.6e-08
inline constexpr float kLog2Erfc_32[] = {-0x1.ef93d8p-9f, -0x1.9cc4d8p+0f, -0x1.e3443ep-1f, -0x1.065b14p-3f, 0x1.5e8aa4p-6f, -0x1.b59232p-10f};
// erf(x) / x, z = x^2, relative error 3.9e-17
inline constexpr double kErf_64[] = {0x1.20dd750429b6dp+0, -0x1.812746b037999p-2, 0x1.ce2f21a03f3p-4, -0x1.b82ce31182ep-6, 0x1.565bcce761da5p-8, -0x1.c02dad2e632cep-11, 0x1.f9a2676452907p-14, -0x1.f4c4a24184a1ap-17, 0x1.b93fc444c3ba1p-20, -0x1.5a37adb01bd76p-23, 0x1.c71b2e0063793p-27, -0x1.5e7623295def9p-31, -0x1.2dbf5d55ec6f1p-36};
// (sin(x) / x - 1) / z, z = x^2, relative error 9.1e-20
inline constexpr double kSin_64[] = {-0x1.5555555555555p-3, 0x1.1111111111067p-7, -0x1.a01a019ffdbd7p-13, 0x1.71de3a32b2f32p-19, -0x1.ae642ae9b9882p-26, 0x1.6108c4af6c126p-33, -0x1.9f7b61d8e0842p-41};
// (cos(x) - 1 + z/2) / z^2, z = x^2, relative error 1.6e-21
inline constexpr double kCos_64[] = {0x1.5555555555555p-5, -0x1.6c16c16c16b2bp-10, 0x1.a01a019ffb916p-16, -0x1.27e4fb588d78ap-22, 0x1.1eed6d78335a3p-29, -0x1.9371d14c1b128p-37, 0x1.9c7d67b7cf9b5p-45};
// the same, for f32 in f64, relative error 4.9e-12
inline constexpr double kSin_32[] = {-0x1.5555554ca8eecp-3, 0x1.11110889eae38p-7, -0x1.a00f939e3f566p-13, 0x1.6cd5efa329867p-19};
// the same, for f32 in f64, relative error 1e-13
inline constexpr double kCos_32[] = {0x1.5555554f433b8p-5, -0x1.6c16b88c933cap-10, 0x1.a01117edb6927p-16, -0x1.24291bdf5afa2p-22};
// (atan(x) / x - 1) / z, z = x^2, relative error 1.7e-20
inline constexpr double kAtan_64[] = {-0x1.5555555555555p-2, 0x1.9999999999888p-3, -0x1.2492492488b53p-3, 0x1.c71c71c1b6aep-4, -0x1.745d166097614p-4, 0x1.3b1398da6a1a5p-4, -0x1.110f520408eafp-4, 0x1.e1b5839c524b3p-5, -0x1.ad9d10216ed48p-5, 0x1.7c72c5a41eff2p-5, -0x1.3a7f4f49f8016p-5, 0x1.9ccfb7ba5b2b9p-6, -0x1.26a8e6b049bcdp-7};
// (asin(x) / x - 1) / z, z = x^2, relative error 3e-18
inline constexpr double kAsin_64[] = {0x1.5555555555578p-3, 0x1.333333332df15p-4, 0x1.6db6db722bd22p-5, 0x1.f1c71a8b4d7f1p-6, 0x1.6e8bdff2e3d05p-6, 0x1.1c49dafca022bp-6, 0x1.ca22088235bdep-7, 0x1.756ae4a2089c5p-7, 0x1.62018f28526eep-7, 0x1.d6f1964bcf497p-9, 0x1.6956d88a2aec6p-6, -0x1.61dea90684282p-6, 0x1.0ef23720b4a78p-5};

inline constexpr double kPiHalf_64[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
inline constexpr double kTwoOverPi_64[] = {0x1.45f306dc9c883p-1};
inline constexpr std::uint64_t kTwoOverPiWords[] = {0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
inline constexpr double kTwoOverPiPieces[] = {0x1.45f306cp-1, 0x1.c9c882ap-29, 0x1.4fe13a8p-59, 0x1.f47d4dp-86, 0x1.bb81b6cp-113, 0x1.4acc9ep-143, 0x1.0e4107cp-170};

}  // namespace kiln::tile::polynomials
