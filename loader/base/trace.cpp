// SPDX-License-Identifier: Apache-2.0
#include "h5feed/trace.hpp"

namespace h5feed {

const char* name_of(Stage stage) noexcept {
  switch (stage) {
    case Stage::plan:
      return "plan";
    case Stage::read_decode:
      return "read+decode";
    case Stage::gather:
      return "gather";
    case Stage::transfer:
      return "transfer";
    case Stage::wait:
      return "wait";
  }
  return "unknown";
}

}  // namespace h5feed
