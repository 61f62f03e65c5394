// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/python.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kDebianPython = "/usr/bin/python3";

// Importing PyTorch from a slow disk for the first time takes a while; after this time, something hangs.
constexpr std::chrono::seconds kProbeLimit{120};

// An interpreter's answer to `describe`.
struct Answer {
  std::string program;
  Json description;
  std::chrono::duration<double> start{};

  bool complete() const {
    for (const Json& module : description.at("modules")) {
      if (module.at("version").is_null()) return false;
    }
    return true;
  }
};

// Returns what an interpreter can import; nullopt if there is no such interpreter.
std::optional<Answer> probe(const std::string& program, const std::string& peer, const PeerFolder& folder,
                            const std::string& order) {
  const auto begin = Clock::now();
  const ChildResult child =
      run_program(program, {folder.script_of(peer).string(), "describe", order}, kProbeLimit, [] {});
  if (child.exit_code == kNoSuchProgram) return std::nullopt;
  if (child.timed_out) {
    throw Error(
        fmt::format("--peer {}: {} did not report the versions of its packages within {} s; name another: "
                    "--python PROGRAM",
                    peer, printable(program), kProbeLimit.count()));
  }
  const Json description = json_from(child.output);
  if (child.exit_code != 0 || child.signal != 0 || !description.is_object()) {
    throw Error(
        fmt::format("{} cannot run the peer; see its message above, or name another: --python PROGRAM",
                    printable(program)));
  }
  return Answer{program, description, Clock::now() - begin};
}

// Names the packages that an interpreter lacks, and the command that installs them.
[[noreturn]] void throw_incomplete(const std::string& peer, const Answer& found) {
  std::string names, problems, apt, pip;
  bool all_in_debian = true;
  for (const auto& [name, module] : found.description.at("modules").items()) {
    if (!module.at("version").is_null()) continue;
    names += (names.empty() ? "" : " and ") + name;
    pip += ' ' + module.at("pip").get<std::string>();
    const auto package = module.at("apt").get<std::string>();
    all_in_debian = all_in_debian && !package.empty();
    apt += ' ' + package;
    const auto problem = module.at("problem").get<std::string>();
    if (!problem.empty()) problems += fmt::format(" ({}: {})", name, problem);
  }
  const std::string program = printable(found.program);
  const std::string by_pip = fmt::format("{} -m pip install{}", program, pip);
  throw Error(fmt::format("--peer {}: {} has no {}{}{}; install it: {}, or name another: --python PROGRAM",
                          peer, program, problems.empty() ? "" : "usable ", names, printable(problems),
                          all_in_debian ? fmt::format("apt-get install{} (or: {})", apt, by_pip) : by_pip));
}

Peer to_peer(const std::string& name, const std::string& script, const Answer& found) {
  Peer peer{.name = name, .python = found.program, .script = script, .start = found.start};
  peer.versions["python"] = found.description.at("python");
  for (const auto& [module, facts] : found.description.at("modules").items()) {
    peer.versions[module] = facts.at("version");
  }
  for (const Json& way : found.description.at("ways")) {
    peer.ways.push_back({.mode = way.at("mode"),
                         .name = way.at("name"),
                         .order = way.at("order"),
                         .same_order = way.at("same_order"),
                         .converts = way.at("converts"),
                         .slow_start = way.at("slow_start")});
  }
  return peer;
}

}  // namespace

Peer find_peer(const std::string& name, const std::string& python, const PeerFolder& folder,
               const std::string& order) {
  std::vector<std::string> candidates = {python};
  if (python.empty()) candidates = {"python3", kDebianPython};
  std::optional<Answer> incomplete;
  for (const std::string& program : candidates) {
    const std::optional<Answer> found = probe(program, name, folder, order);
    if (!found) continue;
    if (found->complete()) return to_peer(name, folder.script_of(name).string(), *found);
    if (!incomplete) incomplete = found;
  }
  if (!incomplete) {
    throw Error(
        fmt::format("--peer {}: {} was not found; install it: apt-get install python3, or name "
                    "another: --python PROGRAM",
                    name, printable(candidates.front())));
  }
  throw_incomplete(name, *incomplete);
}

}  // namespace h5feed::cli
