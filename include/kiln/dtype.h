// Element types, shared by the public API and every internal folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

enum class DType : std::uint8_t {
#define KILN_DTYPE(enumerator, name, bits, kind) enumerator,
#include <kiln/dtypes.def>
#undef KILN_DTYPE
};

enum class DTypeClass : std::uint8_t { Boolean, SignedInteger, UnsignedInteger, Float, Complex, String };

// The name used in every text form, such as "f32".
std::string_view name(DType dtype);

// The dtype called `text`, or nothing.
std::optional<DType> dtype_from_name(std::string_view text);

// Bits of one element in memory. A string's element is one std::string object, whatever this says.
int bits(DType dtype);

DTypeClass dtype_class(DType dtype);

// Bytes that `elements` elements take in memory, packed types rounded up to whole bytes.
// Throws Error (caller, invalid_argument) if negative or not representable.
std::int64_t byte_size(DType dtype, std::int64_t elements);

inline bool is_float(DType dtype) { return dtype_class(dtype) == DTypeClass::Float; }
inline bool is_signed_integer(DType dtype) { return dtype_class(dtype) == DTypeClass::SignedInteger; }
inline bool is_unsigned_integer(DType dtype) { return dtype_class(dtype) == DTypeClass::UnsignedInteger; }
inline bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }

}  // namespace kiln
