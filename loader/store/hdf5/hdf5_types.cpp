// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/hdf5_types.hpp"

#include <fmt/format.h>

#include <bit>

namespace h5feed {
namespace {

constexpr bool kHostIsLittle = std::endian::native == std::endian::little;
constexpr H5T_order_t kHostOrder = kHostIsLittle ? H5T_ORDER_LE : H5T_ORDER_BE;

// Bit layout of the IEEE 754 binary formats; the sign is the top bit.
struct FloatLayout {
  DType dtype;
  std::size_t exponent_bits;
  std::size_t mantissa_bits;
  std::size_t exponent_bias;
};
constexpr FloatLayout kHalf{DType::f16, 5, 10, 15};
constexpr FloatLayout kBrainFloat{DType::bf16, 8, 7, 127};
constexpr FloatLayout kFloats[] = {kHalf, kBrainFloat, {DType::f32, 8, 23, 127}, {DType::f64, 11, 52, 1023}};

bool has_known_order(const H5::AtomType& type) {
  const H5T_order_t order = type.getOrder();
  return order == H5T_ORDER_LE || order == H5T_ORDER_BE || type.getSize() == 1;
}

bool whole_bytes(const H5::AtomType& type) {
  return type.getPrecision() == type.getSize() * 8 && type.getOffset() == 0 && has_known_order(type);
}

StoredType numeric(DType dtype, const H5::AtomType& type) {
  const bool swapped = type.getSize() > 1 && type.getOrder() != kHostOrder;
  return {dtype, swapped, std::string(name_of(dtype))};
}

StoredType classify_integer(const H5::IntType& type) {
  const std::size_t bits = type.getPrecision();
  const bool is_signed = type.getSign() != H5T_SGN_NONE;
  const std::optional<DType> dtype =
      dtype_from_name(fmt::format("{}{}", is_signed ? 'i' : 'u', 8 * type.getSize()));
  if (!dtype) return {{}, false, fmt::format("integers of {} bytes", type.getSize())};
  if (!has_known_order(type)) return {{}, false, fmt::format("{}-bit integers", bits)};
  StoredType stored = numeric(*dtype, type);
  if (whole_bytes(type)) return stored;
  // Damaged files may name bits that the value does not have.
  const auto first = static_cast<std::size_t>(type.getOffset());
  const std::size_t all = 8 * type.getSize();
  if (bits == 0 || bits > all || first > all - bits)
    return {{}, false, fmt::format("integers of {} bits at bit {} of {}", bits, first, all)};
  stored.plain = false;
  stored.bits = {static_cast<unsigned>(first), static_cast<unsigned>(bits)};
  stored.text = fmt::format("{} of {} bits", stored.text, bits);
  return stored;
}

// Returns an integer type whose values fill their bytes; for others, no dtype.
StoredType classify_whole_integer(const H5::IntType& type) {
  StoredType stored = classify_integer(type);
  if (stored.bits.count > 0) return {{}, false, fmt::format("{}-bit integers", stored.bits.count)};
  return stored;
}

StoredType classify_float(const H5::FloatType& type) {
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_bits = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_bits = 0;
  type.getFields(sign, exponent, exponent_bits, mantissa, mantissa_bits);
  std::string norm_text;
  const H5T_norm_t norm = type.getNorm(norm_text);
  for (const FloatLayout& layout : kFloats) {
    if (type.getSize() == size_of(layout.dtype) && whole_bytes(type) && norm == H5T_NORM_IMPLIED &&
        mantissa == 0 && mantissa_bits == layout.mantissa_bits && exponent == layout.mantissa_bits &&
        exponent_bits == layout.exponent_bits && sign == layout.mantissa_bits + layout.exponent_bits &&
        type.getEbias() == layout.exponent_bias) {
      return numeric(layout.dtype, type);
    }
  }
  // x87's extended format, padded to 12 or 16 bytes as C compilers for x86 store it.
  if (type.getPrecision() == 80 && exponent_bits == 15 && mantissa_bits == 64) {
    return {{}, false, "long double (80-bit floats)"};
  }
  if (type.getOrder() == H5T_ORDER_VAX) {
    return {{}, false, fmt::format("{}-bit floats in the byte order of the VAX", type.getPrecision())};
  }
  return {{},
          false,
          fmt::format("{}-bit floats ({} exponent and {} mantissa bits, bias {})", type.getPrecision(),
                      exponent_bits, mantissa_bits, type.getEbias())};
}

H5::IntType integer_view(const H5::DataType& type) {
  H5::IntType integer;
  integer.copy(type);
  return integer;
}

StoredType classify_bitfield(const H5::DataType& type) {
  const H5::IntType field = integer_view(type);  // To query precision, offset and byte order
  const std::size_t bits = field.getPrecision();
  const std::optional<DType> dtype = dtype_from_name(fmt::format("u{}", bits));
  if (!dtype || !whole_bytes(field)) {
    return {
        {},
        false,
        fmt::format("bitfields of {} bits at bit {} of {}", bits, field.getOffset(), 8 * field.getSize())};
  }
  StoredType stored = numeric(*dtype, field);
  stored.plain = false;
  stored.text = fmt::format("bitfield of {}", stored.text);
  return stored;
}

// Returns whether an enumeration is h5py's bool: FALSE = 0 and TRUE = 1 in one byte.
bool is_bool(const H5::EnumType& type) {
  if (type.getSize() != 1 || type.getNmembers() != 2) return false;
  for (unsigned member = 0; member < 2; ++member) {
    std::uint8_t value = 0;
    type.getMemberValue(member, &value);
    if (value > 1 || type.nameOf(&value, 16) != (value == 0 ? "FALSE" : "TRUE")) return false;
  }
  return true;
}

H5::IntType base_of(const H5::EnumType& type) { return integer_view(type.getSuper()); }

StoredType classify_enumeration(const H5::EnumType& type) {
  if (is_bool(type)) return {DType::u8, false, "bool", 1, false};
  StoredType stored = classify_whole_integer(base_of(type));
  stored.plain = false;
  stored.text = stored.dtype ? fmt::format("enumeration of {}", stored.text) : "enumeration";
  return stored;
}

StoredType classify_compound(const H5::CompType& type) {
  const StoredType other{{}, false, "compound", 1, false};
  if (type.getNmembers() != 2 || type.getMemberName(0) != "r" || type.getMemberName(1) != "i" ||
      type.getMemberClass(0) != H5T_FLOAT || type.getMemberClass(1) != H5T_FLOAT) {
    return other;
  }
  const StoredType real = classify_float(type.getMemberFloatType(0));
  const StoredType imaginary = classify_float(type.getMemberFloatType(1));
  if (!real.dtype || real.dtype != imaginary.dtype || real.byte_swapped != imaginary.byte_swapped)
    return other;
  const std::size_t bytes = size_of(*real.dtype);
  if (type.getMemberOffset(0) != 0 || type.getMemberOffset(1) != bytes || type.getSize() != 2 * bytes)
    return other;
  const std::string text =
      real.dtype == DType::bf16 ? "complex numbers of bf16" : fmt::format("complex{}", 16 * bytes);
  return {real.dtype, real.byte_swapped, text, 2, false};
}

}  // namespace

StoredType classify_type(const H5::DataSet& dataset) {
  switch (dataset.getTypeClass()) {
    case H5T_INTEGER:
      return classify_integer(dataset.getIntType());
    case H5T_FLOAT:
      return classify_float(dataset.getFloatType());
    case H5T_STRING:
      return {{}, false, "string"};
    case H5T_VLEN:
      return {{}, false, "variable-length"};
    case H5T_COMPOUND:
      return classify_compound(dataset.getCompType());
    case H5T_ENUM:
      return classify_enumeration(dataset.getEnumType());
    case H5T_ARRAY:
      return {{}, false, "array"};
    case H5T_OPAQUE:
      return {{}, false, "opaque"};
    case H5T_BITFIELD:
      return classify_bitfield(dataset.getDataType());
    case H5T_REFERENCE:
      return {{}, false, "reference"};
    default:
      return {{}, false, "unknown type"};
  }
}

StoredType classify_vlen_element(const H5::DataSet& dataset) {
  const H5::DataType element = dataset.getVarLenType().getSuper();
  if (element.getClass() == H5T_INTEGER) return classify_whole_integer(integer_view(element));
  if (element.getClass() == H5T_BITFIELD) return classify_bitfield(element);
  if (element.getClass() == H5T_FLOAT) {
    H5::FloatType real;
    real.copy(element);
    return classify_float(real);
  }
  return {{}, false, "variable-length"};
}

H5::DataType memory_type(const H5::DataSet& dataset) {
  H5::DataType type;
  type.copy(dataset.getDataType());
  // libhdf5 does not change the byte order of an enumeration with members; one byte has no byte order.
  if (dataset.getTypeClass() == H5T_ENUM) {
    if (type.getSize() == 1) return type;
    type.copy(base_of(dataset.getEnumType()));
  }
  if (H5Tset_order(type.getId(), kHostOrder) < 0) {
    throw H5::DataTypeIException("memory_type", "the byte order cannot be set");
  }
  return type;
}

H5::DataType file_type(DType dtype) {
  const auto pick = [](const H5::PredType& little, const H5::PredType& big) -> H5::DataType {
    return kHostIsLittle ? little : big;
  };
  switch (dtype) {
    case DType::u8:
      return pick(H5::PredType::STD_U8LE, H5::PredType::STD_U8BE);
    case DType::i8:
      return pick(H5::PredType::STD_I8LE, H5::PredType::STD_I8BE);
    case DType::u16:
      return pick(H5::PredType::STD_U16LE, H5::PredType::STD_U16BE);
    case DType::i16:
      return pick(H5::PredType::STD_I16LE, H5::PredType::STD_I16BE);
    case DType::u32:
      return pick(H5::PredType::STD_U32LE, H5::PredType::STD_U32BE);
    case DType::i32:
      return pick(H5::PredType::STD_I32LE, H5::PredType::STD_I32BE);
    case DType::u64:
      return pick(H5::PredType::STD_U64LE, H5::PredType::STD_U64BE);
    case DType::i64:
      return pick(H5::PredType::STD_I64LE, H5::PredType::STD_I64BE);
    case DType::f32:
      return pick(H5::PredType::IEEE_F32LE, H5::PredType::IEEE_F32BE);
    case DType::f64:
      return pick(H5::PredType::IEEE_F64LE, H5::PredType::IEEE_F64BE);
    case DType::f16:
    case DType::bf16:
      break;
  }
  // libhdf5 predefines f16 only from 1.14 and bf16 only from 2.0; these types are equal to them.
  const FloatLayout& layout = dtype == DType::f16 ? kHalf : kBrainFloat;
  H5::FloatType type;
  type.copy(pick(H5::PredType::IEEE_F32LE, H5::PredType::IEEE_F32BE));
  type.setFields(15, layout.mantissa_bits, layout.exponent_bits, 0, layout.mantissa_bits);
  type.setSize(2);
  type.setEbias(layout.exponent_bias);
  return type;  // NOLINT(cppcoreguidelines-slicing): a handle
}

}  // namespace h5feed
