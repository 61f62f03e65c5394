// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/part_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/write/attributes.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/sha256.hpp"

namespace h5feed::cli {
namespace {

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return parse_number(fmt::format("{}=", name), text);
}

std::uint64_t target_chunk_rows(const RepackJob& job) {
  return job.storage.chunk_shape.empty() ? 1 : job.storage.chunk_shape.front();
}

}  // namespace

PartChoice part_choice(const RepackArguments& arguments) {
  constexpr std::uint64_t kMostParts = 100'000;
  PartChoice choice;
  if (!arguments.split.empty()) choice.parts = parse_number("--split", arguments.split, 1, kMostParts);
  if (arguments.part.empty()) return choice;
  std::uint64_t parts = 0, part = 0;
  if (arguments.part == "auto") {
    static constexpr std::array<std::pair<const char*, const char*>, 3> kLaunchers = {
        {{"SLURM_PROCID", "SLURM_NTASKS"},
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
         {"PMI_RANK", "PMI_SIZE"}}};
    for (const auto& [rank, size] : kLaunchers) {
      const auto own = from_environment(rank), all = from_environment(size);
      if (!own || !all) continue;
      part = *own;
      parts = *all;
      break;
    }
    if (parts == 0) {
      throw OptionError("--part auto: neither Slurm nor mpirun has numbered this process; give --part I/N");
    }
  } else {
    const auto slash = arguments.part.find('/');
    if (slash == std::string::npos) {
      throw OptionError(
          fmt::format("--part \"{}\": give I/N, counted from 0, such as 0/4, or auto", arguments.part));
    }
    part = parse_number("--part", arguments.part.substr(0, slash));
    parts = parse_number("--part", arguments.part.substr(slash + 1), 1, kMostParts);
  }
  if (part >= parts) {
    throw OptionError(fmt::format("--part {}/{}: parts are counted from 0 to {}", part, parts, parts - 1));
  }
  if (choice.parts != 0 && choice.parts != parts) {
    throw OptionError(fmt::format("--split {} and --part {}/{} disagree", choice.parts, part, parts));
  }
  return {parts, part};
}

PartPlan::PartPlan(const std::shared_ptr<H5File>& file, const ValueFiles& values,
                   const RepackArguments& arguments)
    : values_(values), arguments_(arguments) {
  const PartChoice choice = part_choice(arguments);
  split_ = choice.parts > 0;
  only_ = choice.only;
  jobs_ = choose_jobs(file, arguments);
  if (split_) add_row_companions(file, arguments, false, jobs_);
  for (RepackJob& job : jobs_) {
    const bool in_rows = job.chosen || (split_ && shares_rows(jobs_, job.info().shape));
    // The edge chunks of a part are not edge chunks of the whole dataset.
    if (in_rows) job.storage.unfiltered_edge_chunks = false;
    in_parts_.push_back(in_rows);
  }
  parts_ = split_ ? choice.parts : parts_to_resume();
  if (split_) check_parts();
  digest_ = digest();
}

PartRows PartPlan::rows_of(const RepackJob& job, std::uint64_t part) const {
  const std::uint64_t unit = unit_rows(job), all = job.info().rows();
  const std::uint64_t chunks = (all + unit - 1) / unit;
  const auto begin = [&](std::uint64_t i) { return std::min(all, chunks * i / parts_ * unit); };
  return {begin(part), begin(part + 1) - begin(part)};
}

std::filesystem::path PartPlan::path(std::uint64_t part) const {
  const std::filesystem::path out = arguments_.out;
  const std::string ending = out.extension().string();
  return out.parent_path() /
         fmt::format("{}{}.part-{}-of-{}{}", split_ ? "" : ".", out.stem().string(), part, parts_, ending);
}

std::string PartPlan::identity(std::uint64_t part) const {
  return fmt::format("{} {}/{}", digest_, part, parts_);
}

bool PartPlan::complete(std::uint64_t part) const {
  return text_attribute(path(part), "/", kPartIdentity) == identity(part);
}

std::uint64_t PartPlan::count_complete() const {
  std::uint64_t count = 0;
  for (std::uint64_t part = 0; part < parts_; ++part) count += complete(part) ? 1U : 0U;
  return count;
}

void PartPlan::check_others() const {
  for (std::uint64_t part = 0; part < parts_; ++part) {
    std::error_code error;
    const std::filesystem::path file = path(part);
    if (std::filesystem::equivalent(arguments_.in, file, error)) {
      throw OptionError(
          fmt::format("{} is the input, and has the name of a part of {}; choose another name for the output",
                      arguments_.in, arguments_.out));
    }
    values_.check_output(file);
    if (!std::filesystem::exists(file, error) || complete(part)) continue;
    if (arguments_.force && split_ && std::filesystem::exists(arguments_.out, error)) {
      throw OptionError(
          fmt::format("{} and its parts are there, and would be a mixture of old and new ones until all are "
                      "replaced; remove {} first, or choose another name for the output",
                      arguments_.out, arguments_.out));
    }
    if (arguments_.force) continue;
    // Parts that only serve to resume are replaced where source or settings have changed since, but nothing
    // else is.
    if (!split_ && text_attribute(file, "/", kPartIdentity)) continue;
    throw FileError(
        fmt::format("{} is no such part: made from another source or with other settings; remove it, or "
                    "--force to replace it",
                    file.string()));
  }
}

std::string PartPlan::text() const {
  const std::uint64_t done = count_complete();
  std::string datasets;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!in_parts_[i]) continue;
    const RepackJob& job = jobs_[i];
    datasets += fmt::format(
        "\n  {} ({}): {} {}, {} decoded", printable(job.info().path), job.info().shape_text(),
        job.storage.chunk_shape.empty() ? "contiguous" : "chunks " + format_shape(job.storage.chunk_shape),
        format_filters(job.storage.filters), format_bytes(job.info().total_bytes()));
  }
  return fmt::format("repacking {} into {} in {} {}, {}{}{}", printable(arguments_.in),
                     printable(arguments_.out), parts_, parts_ == 1 ? "part" : "parts",
                     split_ ? "kept next to it" : "removed at the end",
                     done > 0 && (arguments_.resume || only_)
                         ? fmt::format("; {} {} there already", done, done == 1 ? "is" : "are")
                         : "",
                     datasets);
}

// Returns enough parts that little is lost on interruption, each with several rows of source chunks, since
// parts decode those at their boundaries twice.
std::uint64_t PartPlan::parts_to_resume() const {
  constexpr std::uint64_t kPartBytes = 256 * kMiB, kMostParts = 256, kSourceBands = 4;
  std::uint64_t bytes = 0, bands = ~std::uint64_t{0};
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!in_parts_[i]) continue;
    bytes += jobs_[i].info().total_bytes();
    bands = std::min(bands, jobs_[i].info().rows() / jobs_[i].reader->chunk_shape().front());
  }
  const std::uint64_t most = std::clamp<std::uint64_t>(bands / kSourceBands, 1, kMostParts);
  return std::clamp<std::uint64_t>(bytes / kPartBytes, 1, most);
}

// Returns the rows of which parts hold multiples: parts end at chunk boundaries, of each dataset or, if parts
// are shared, of the chosen one.
std::uint64_t PartPlan::unit_rows(const RepackJob& job) const {
  std::uint64_t unit = job.chosen ? target_chunk_rows(job) : 1;
  for (const RepackJob& other : jobs_) {
    if (split_ && other.chosen && other.info().rows() == job.info().rows())
      unit = std::max(unit, target_chunk_rows(other));
  }
  return unit;
}

void PartPlan::check_parts() const {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i].chosen) continue;
    const std::uint64_t unit = unit_rows(jobs_[i]);
    const std::uint64_t chunks = (jobs_[i].info().rows() + unit - 1) / unit;
    if (chunks >= parts_) continue;
    throw OptionError(fmt::format("--split {}: {} has {} {} of {} rows only; split it into fewer", parts_,
                                  jobs_[i].info().place(), chunks, chunks == 1 ? "chunk" : "chunks", unit));
  }
}

// Digests the source's current state and everything that determines a part's content.
std::string PartPlan::digest() const {
  const std::filesystem::path in = arguments_.in;
  std::string text = fmt::format("{} {} {}", std::filesystem::file_size(in),
                                 std::filesystem::last_write_time(in).time_since_epoch().count(), parts_) +
                     values_.state();
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!in_parts_[i]) continue;
    text += fmt::format("|{} {} {} {}", jobs_[i].info().path, jobs_[i].info().shape_text(),
                        format_shape(jobs_[i].storage.chunk_shape), unit_rows(jobs_[i]));
    for (const FilterSpec& filter : jobs_[i].storage.filters) {
      text += fmt::format(" {}", filter.id);
      for (const unsigned param : filter.params) text += fmt::format(",{}", param);
    }
  }
  Sha256 sha256;
  sha256.update(std::as_bytes(std::span(text)));
  return sha256.finish();
}

}  // namespace h5feed::cli
