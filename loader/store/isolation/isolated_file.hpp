// SPDX-License-Identifier: Apache-2.0
// A file that another process reads with libhdf5 (`DatasetOptions::isolation`). Internal to store/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "h5feed/error.hpp"
#include "store/isolation/reader_process.hpp"
#include "store/isolation/requests.hpp"

namespace h5feed {

/// libhdf5 needs more memory in its process than `isolation_memory_bytes`: the file is damaged, or its chunks
/// are large. The message names the file.
class IsolationMemoryError : public IsolationError {
 public:
  using IsolationError::IsolationError;
};

/// A file opened in a `ReaderProcess`, which may be shared by many files. All requests of
/// the process are serialized, like calls of libhdf5 itself, each within a `ReaderProcess::Use`. If the
/// process has died over another file, the next request opens this one again in a new process.
class IsolatedFile {
 public:
  /// Opens `place`, which messages call `path`. Throws what `H5File::open` throws there, and what
  /// `ReaderProcess::Use` and `ReaderProcess::call` throw.
  IsolatedFile(std::shared_ptr<ReaderProcess> process, const std::filesystem::path& path,
               const std::filesystem::path& place);
  IsolatedFile(const IsolatedFile&) = delete;
  IsolatedFile& operator=(const IsolatedFile&) = delete;
  /// Closes the file in the process, without waiting for it.
  ~IsolatedFile();

  /// Returns what the function behind `request` returns for these arguments. Throws what that throws, and
  /// what `ReaderProcess::Use` and `ReaderProcess::call` throw.
  template <typename Result, typename... Arguments>
  Result ask(Request request, const Arguments&... arguments) const {
    const std::vector<std::byte> reply = ask_bytes(request, arguments...);
    WireReader reader(reply);
    auto result = taken<Result>(reader);
    if (!reader.rest().empty()) refuse("bytes behind its end");
    return result;
  }

  /// Returns the bytes of the result. Throws as `ask`.
  template <typename... Arguments>
  std::vector<std::byte> ask_bytes(Request request, const Arguments&... arguments) const {
    return exchange(encode(request, arguments...), {});
  }

  /// Takes a value from the bytes of a result. Throws IsolationError.
  template <typename Result>
  Result taken(WireReader& reader) const {
    try {
      return reader.get<Result>();
    } catch (const BadMessage& error) {
      refuse(error.what());
    }
  }

  /// Fills `out`, which is not empty, with the bytes that the function returns. Throws as `ask`.
  template <typename... Arguments>
  void ask_into(std::span<std::byte> out, Request request, const Arguments&... arguments) const {
    exchange(encode(request, arguments...), out);
  }

  /// Ends the process, whose reply was valid in form only: `what`, such as "an address outside the file".
  /// Throws IsolationError.
  [[noreturn]] void refuse(const std::string& what) const;

  /// Returns the process that reads the file.
  const std::shared_ptr<ReaderProcess>& process() const noexcept { return process_; }

 private:
  template <typename... Arguments>
  WireWriter encode(Request request, const Arguments&... arguments) const {
    WireWriter message;
    message.put(request);
    message.put(number_);
    (message.put(arguments), ...);
    return message;
  }
  std::vector<std::byte> exchange(const WireWriter& request, std::span<std::byte> out) const;
  std::vector<std::byte> answer(const WireWriter& request, std::span<std::byte> out) const
      H5FEED_REQUIRES(*process_);
  void ensure_open() const H5FEED_REQUIRES(*process_);

  const std::shared_ptr<ReaderProcess> process_;
  const std::string path_;
  const std::string place_;     // Absolute: the process may have started in another folder
  const std::uint64_t number_;  // Names the file in requests
  mutable std::uint64_t opened_in_ H5FEED_GUARDED_BY(*process_) = 0;  // Generation of the process
};

}  // namespace h5feed
