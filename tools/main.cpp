// The h5feed program. Everything lives in h5feed_cli, so that tests can link it.
#include "tools/cli.hpp"

int main(int argc, char** argv) { return h5feed::cli::run_to_end(argc, argv); }
