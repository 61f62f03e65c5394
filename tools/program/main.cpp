// SPDX-License-Identifier: Apache-2.0
// The h5feed program. Everything else is in h5feed_cli, so that tests can link it.
#include "tools/program/cli.hpp"

int main(int argc, char** argv) { return h5feed::cli::run_to_end(argc, argv); }
