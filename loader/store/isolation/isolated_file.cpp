// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/isolated_file.hpp"

#include <fmt/format.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

std::atomic<std::uint64_t> files = 0;

[[noreturn]] void throw_as(Outcome outcome, const std::string& message) {
  switch (outcome) {
    case Outcome::dataset_error:
      throw DatasetError(message);
    case Outcome::version_error:
      throw VersionError(message);
    case Outcome::invalid_argument:
      throw std::invalid_argument(message);
    case Outcome::done:
    case Outcome::file_error:
    case Outcome::out_of_memory:
      break;
  }
  throw FileError(message);
}

}  // namespace

IsolatedFile::IsolatedFile(std::shared_ptr<ReaderProcess> process, const std::filesystem::path& path,
                           const std::filesystem::path& place)
    : process_(std::move(process)),
      path_(path.string()),
      place_(std::filesystem::absolute(place).string()),
      number_(++files) {
  const ReaderProcess::Use use(*process_, path_);
  ensure_open();
}

IsolatedFile::~IsolatedFile() {
  try {
    process_->tell(opened_in_, encode(Request::close).bytes());
  } catch (const std::exception&) {
    // Without memory for the request, the file stays open until the process ends.
  }
}

void IsolatedFile::ensure_open() const {
  const std::uint64_t generation = process_->generation();
  if (opened_in_ == generation) return;
  answer(encode(Request::open, path_, place_), {});
  opened_in_ = generation;
}

std::vector<std::byte> IsolatedFile::exchange(const WireWriter& request, std::span<std::byte> out) const {
  const ReaderProcess::Use use(*process_, path_);
  ensure_open();
  return answer(request, out);
}

std::vector<std::byte> IsolatedFile::answer(const WireWriter& request, std::span<std::byte> out) const {
  Exchange::Reply reply = process_->call(path_, request.bytes(), out);
  if (reply.outcome == Outcome::done) return std::move(reply.bytes);
  const std::string message(reinterpret_cast<const char*>(reply.bytes.data()), reply.bytes.size());
  if (reply.outcome != Outcome::out_of_memory) throw_as(reply.outcome, message);
  constexpr std::string_view kLimit = "isolation_memory_bytes";
  if (!can_be_set(kLimit)) {
    throw IsolationMemoryError(path_ +
                               ": libhdf5 needs more memory for it than its process may take; restore the "
                               "file from a good copy");
  }
  throw IsolationMemoryError(
      fmt::format("{}: libhdf5 needs more memory for it than {}; restore the file from a good copy, or raise "
                  "the limit if it is only large",
                  path_, spelled(kLimit)));
}

void IsolatedFile::refuse(const std::string& what) const { process_->refuse(path_, what); }

}  // namespace h5feed
