// SPDX-License-Identifier: Apache-2.0
#include "h5feed/error.hpp"

#include "base/terminal_text.hpp"

namespace h5feed {

// A name with a newline must not split a message, and an escape sequence must not change the reader's
// terminal.
Error::Error(const std::string& message) : std::runtime_error(on_one_line(message)) {}

}  // namespace h5feed
