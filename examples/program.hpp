// What the examples share: where they train, and how their main functions end.
#pragma once

#include <c10/core/Device.h>
#include <torch/cuda.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

#include "h5feed/config.hpp"
#include "h5feed/error.hpp"

namespace example {

/// `name` as LibTorch reads it; for "auto" the GPU where LibTorch has one. Throws c10::Error.
inline c10::Device choose_device(const std::string& name) {
  if (name != "auto") return c10::Device(name);
  return torch::cuda::is_available() ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

/// Where the loader delivers for a network on `device`: there, where h5feed is built with CUDA, else in host
/// memory, from which `.to(device)` copies.
inline std::string loader_device(const c10::Device& device) {
  return H5FEED_HAS_CUDA && device.is_cuda() ? device.str() : "cpu";
}

/// Parses the command line and calls `run`. Exit codes are the h5feed program's: 0 done, 1 failed, 2 wrong
/// usage; errors are one line on stderr, with the program's name in front.
template <typename Run>
int run_program(CLI::App& app, int argc, char** argv, const std::string& name, const Run& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run();
  } catch (const h5feed::OptionError& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
  return 0;
}

}  // namespace example
