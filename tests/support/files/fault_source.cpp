// SPDX-License-Identifier: Apache-2.0
#include "support/files/fault_source.hpp"

#include <utility>

#include "h5feed/error.hpp"

namespace h5feed::test {

FaultSource::FaultSource(std::shared_ptr<const ByteSource> source, Fault fault)
    : source_(std::move(source)), fault_(fault) {}

void FaultSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t number = reads_.fetch_add(1);
  if (number == fault_.failing_read) throw FileError("injected input/output error");
  if (number == fault_.short_read) {
    source_->read(offset, out.first(out.size() / 2));
    throw FileError("injected end of file");
  }
  source_->read(offset, out);
}

}  // namespace h5feed::test
