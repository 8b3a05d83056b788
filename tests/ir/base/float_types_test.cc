#include "ir/base/float_types.h"

#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Float16, EveryPatternRoundTrips) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(pattern);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value))));
    } else {
      EXPECT_EQ(Float16(value).bits, half.bits);
    }
  }
}

TEST(Float16, RoundsHalfToEvenBetweenNeighbours) {
  for (std::uint32_t pattern = 0; pattern < 0x7bff; ++pattern) {
    Float16 low, high;
    low.bits = static_cast<std::uint16_t>(pattern);
    high.bits = static_cast<std::uint16_t>(pattern + 1);
    const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
    EXPECT_EQ(Float16(middle).bits, pattern % 2 == 0 ? low.bits : high.bits);
    EXPECT_EQ(Float16(std::nextafter(middle, 0.0)).bits, low.bits);
    EXPECT_EQ(Float16(std::nextafter(middle, 1e9)).bits, high.bits);
  }
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(Float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Float16(HUGE_VALF).bits, 0x7c00);
}

TEST(BFloat16, EveryPatternRoundTrips) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    BFloat16 half;
    half.bits = static_cast<std::uint16_t>(pattern);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value))));
    } else {
      EXPECT_EQ(BFloat16(value).bits, half.bits);
    }
  }
}

TEST(BFloat16, RoundsHalfToEven) {
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f7fffffu)).bits, 0x7f80);
}

}  // namespace
}  // namespace kiln
