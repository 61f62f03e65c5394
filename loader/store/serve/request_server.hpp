// SPDX-License-Identifier: Apache-2.0
// Answers the requests of another process with libhdf5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/isolation/requests.hpp"
#include "store/isolation/wire.hpp"

namespace h5feed {

/// The files that another process has opened, and the functions that it may call for them. Not thread-safe.
class RequestServer {
 public:
  /// How a request went, and what follows in the reply; `bytes` is borrowed until the next request.
  struct Answer {
    bool wanted = true;  ///< False for a request without a reply
    Outcome outcome = Outcome::done;
    std::span<const std::byte> bytes = {};
  };

  /// Does what a request asks. Throws BadMessage if it is none.
  Answer answer(std::span<const std::byte> request);

 private:
  // Puts what follows in the reply into `result_`.
  void run(Request request, std::uint64_t number, WireReader& arguments);
  const H5File& file(std::uint64_t number) const;

  std::map<std::uint64_t, std::shared_ptr<H5File>> files_;
  std::vector<std::byte> result_;
};

}  // namespace h5feed
