// SPDX-License-Identifier: Apache-2.0
// A tree with tools/gpu_check.sh on a machine that has what the script needs, all of it played by scripts.
// The program that puts results together is the real one.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {

/// The tree, in a temporary directory, with fake programs in bin/, which come first in PATH. For one thread.
class GpuMachine {
 public:
  GpuMachine() {
    namespace fs = std::filesystem;
    for (const char* name : {"gpu_check.sh", "scripts/gpu_programs.sh", "scripts/gpu_stages.sh"}) {
      fs::create_directories((dir_ / "tools" / name).parent_path());
      fs::copy_file(fs::path(H5FEED_SOURCE_DIR) / "tools" / name, dir_ / "tools" / name);
    }
    script("bin/nvidia-smi", R"sh(
      case "$*" in
        *gpu=name*) echo 'NVIDIA H200' ;;
        *driver*) echo 580.1 ;;
        *pcie.link.gen*) echo 5 ;;
        *pcie.link.width*) echo 16 ;;
      esac)sh");
    script("bin/date", R"sh(
      case "$1" in
        +%s) if [ -f clock ]; then cat clock; else exec /bin/date +%s; fi ;;
        *) echo 20260102 ;;
      esac)sh");
    script("bin/python3", "exit 1");
    script("bin/compute-sanitizer", "echo 'Error: Device not supported'; exit 1");
    script("bin/ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1");
  }

  /// Writes a file; creates its directory.
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  /// Writes a program for sh.
  void script(const std::string& name, const std::string& text) {
    std::filesystem::remove(dir_ / name);  // it may be a link to a program
    write(name, "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(dir_ / name, std::filesystem::perms::owner_all);
  }
  /// Links to a program that was built.
  void program(const std::string& name, const std::string& target) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::filesystem::create_symlink(target, dir_ / name);
  }

  /// Gives the machine a clock that only `pass` of a script moves. Programs that run longer than `timeout`
  /// lets them have ended when their time was over.
  void fake_clock() {
    write("clock", "1000\n");
    script("bin/pass", R"sh(echo $(($(cat clock) + $1)) > clock)sh");
    script("bin/timeout", R"sh(
      shift 2
      end=$(($(cat clock) + $1))
      shift
      "$@"
      code=$?
      [ "$(cat clock)" -gt "$end" ] || exit "$code"
      echo "$end" > clock
      exit 124)sh");
  }
  /// Seconds since `fake_clock`.
  int clock() const { return std::stoi(content("clock")) - 1000; }

  /// Runs the script and returns its exit code; what it said is in the file `out`.
  int check(const std::string& arguments) {
    const std::string command = "cd '" + dir_.path().string() +
                                "' && PATH=\"$PWD/bin:$PATH\" tools/gpu_check.sh " + arguments + " >out 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// Returns a file's content; empty if there is no such file.
  std::string content(const std::string& name) const { return text_so_far(dir_ / name); }
  /// Returns the JSON that the script wrote.
  nlohmann::json result(const std::string& results = "benchmarks/results") const {
    return nlohmann::json::parse(content(results + "/gpu-h200-20260102.json"));
  }
  static nlohmann::json row(const nlohmann::json& result, const std::string& name) {
    for (const nlohmann::json& one : result["rows"]) {
      if (one["name"] == name) return one;
    }
    return {};
  }
  std::filesystem::path operator/(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
};

}  // namespace h5feed::test
