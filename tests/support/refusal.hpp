// What something is refused with.
#pragma once

#include <string>

namespace h5feed::test {

/// The text of the Exception that `make()` throws; "accepted" where it throws none.
template <typename Exception, typename Make>
std::string refusal_of(const Make& make) {
  try {
    make();
  } catch (const Exception& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace h5feed::test
