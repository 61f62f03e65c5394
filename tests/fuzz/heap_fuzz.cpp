// SPDX-License-Identifier: Apache-2.0
// The global heap's collections. An input is a reference, then the bytes of a file.
#include "fuzz/fuzz_target.hpp"
#include "fuzz/input_source.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/global_heap.hpp"

namespace h5feed::test::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const HeapFormat format{.address_bytes = 8, .length_bytes = reader.u8() % 2 == 0 ? 8U : 4U};
  const HeapReference reference{reader.u16(), reader.u16(), reader.u16()};
  std::vector<std::byte> out(reference.bytes);
  try {
    read_heap_object(InputSource(reader.rest()), format, reference, out);
  } catch (const FilterError&) {
  }
}

std::vector<Bytes> seeds() {
  Writer writer;
  writer.u8(0).u16(8).u16(5).u16(2);
  writer.u32(0).u32(0);  // so that the heap is not at 0
  for (const char c : {'G', 'C', 'O', 'L'}) writer.u8(static_cast<unsigned char>(c));
  writer.u32(1).u32(88).u32(0);
  for (unsigned number = 1; number <= 2; ++number) {
    writer.u16(number).u16(1).u32(0).u32(5).u32(0);
    for (unsigned i = 0; i < 8; ++i) writer.u8(number);
  }
  writer.u32(0).u32(0).u32(24).u32(0).u32(0).u32(0);
  return {writer.done()};
}

}  // namespace h5feed::test::fuzz
