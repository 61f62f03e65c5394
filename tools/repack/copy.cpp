// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/copy.hpp"

#include <fmt/format.h>

#include <map>
#include <system_error>

#include "h5feed/error.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/sha256.hpp"

namespace h5feed::cli {
namespace {

// Returns a digest of everything that copy_objects wrote, by object.
std::map<std::string, std::string> object_digests(const H5File& file, const CopyPlan& plan) {
  std::map<std::string, Sha256> digests;
  visit_values(file, plan, [&](const std::string& object, std::span<const std::byte> bytes) {
    check_interrupted();
    digests[object].update(bytes);
  });
  std::map<std::string, std::string> texts;
  for (auto& [object, digest] : digests) texts.emplace(object, digest.finish());
  return texts;
}

}  // namespace

CopyPlan copy_plan(const std::vector<RepackJob>& jobs, const RepackArguments& arguments) {
  CopyPlan plan{.latest = arguments.latest()};
  for (const RepackJob& job : jobs) plan.filled_by_caller.emplace(job.info().path, job.storage);
  const auto directory = [](const std::string& file) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file), error).parent_path();
  };
  plan.elsewhere = directory(arguments.in) != directory(arguments.out);
  return plan;
}

void verify_objects(const H5File& source, const std::filesystem::path& written, const CopyPlan& plan,
                    const std::filesystem::path& out) {
  const auto copy = H5File::open(written);
  const auto ours = object_digests(*copy, plan);
  for (const auto& [object, digest] : object_digests(source, plan)) {
    const auto found = ours.find(object);
    if (found != ours.end() && found->second == digest) continue;
    throw FileError(fmt::format("{}:{}: the copy differs from the source; report it with this file",
                                out.string(), object));
  }
}

void verify_jobs(const std::filesystem::path& written, const std::vector<RepackJob>& jobs,
                 const std::vector<ChunkSeals>& seals, const RepackSettings& settings,
                 const Advance& advance) {
  const auto copy = H5File::open(written);
  const ScopedLogSink quiet(ignore_log);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto reader = open_chunk_reader(copy, copy->describe(jobs[i].info().path));
    verify_job(jobs[i], *reader, seals[i], settings, advance);
  }
}

}  // namespace h5feed::cli
