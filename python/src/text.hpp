// SPDX-License-Identifier: Apache-2.0
// Text between Python and C++. Paths and names in files need not be UTF-8: Python carries bytes that are not
// as lone surrogates ("surrogateescape", as os.fsdecode makes them), and both directions here keep such
// bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace h5feed::python {

namespace nb = nanobind;

/// Returns the str `text`, a value of the option `name`, as UTF-8 with the bytes of surrogate escapes. Throws
/// OptionError, which names the option, for other lone surrogates and for null characters.
std::string bytes_of(const char* name, nb::handle text);
/// Returns a str, bytes or os.PathLike as a path, as os.fsencode does. Throws OptionError as `bytes_of` does,
/// and raises TypeError, naming the option, for a value of another type.
std::string path_of(const char* name, nb::handle path);
/// Returns text of C++ as a str. Bytes that are not UTF-8 become surrogate escapes.
nb::str text_of(std::string_view bytes);
/// Returns str(object), or repr(object) if `quoted`, for a message: valid UTF-8, of bounded length, and never
/// an exception.
std::string shown(nb::handle object, bool quoted = false);

}  // namespace h5feed::python
