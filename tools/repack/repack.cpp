// SPDX-License-Identifier: Apache-2.0
// h5feed repack: rewrites a file with other chunks and filters.
#include <fmt/format.h>
#include <malloc.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/files/folder_of.hpp"
#include "base/files/temporary_file.hpp"
#include "base/system_limits.hpp"
#include "h5feed/error.hpp"
#include "store/write/h5_writer.hpp"
#include "store/write/object_copy.hpp"
#include "store/write/staged_file.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/copy.hpp"
#include "tools/repack/crash_guard.hpp"
#include "tools/repack/dataset.hpp"
#include "tools/repack/part_plan.hpp"
#include "tools/repack/parts.hpp"
#include "tools/repack/report.hpp"
#include "tools/repack/value_files.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/isolated.hpp"
#include "tools/storage/new_file.hpp"

namespace h5feed::cli {
namespace {

RepackSettings make_settings(const RepackArguments& arguments) {
  const SystemLimits limits = system_limits();
  RepackSettings settings{.out = arguments.out,
                          .memory_bytes = default_repack_memory(limits.available_bytes),
                          .jobs = parse_jobs(arguments.jobs, limits),
                          .verify = !arguments.no_verify};
  if (!arguments.memory.empty()) settings.memory_bytes = parse_size("--memory", arguments.memory);
  if (settings.memory_bytes == 0) throw OptionError("--memory 0 holds no chunk; give a size such as 512MiB");
  return settings;
}

// Removes the temporary files of OUT, and of its parts, that no process holds.
void remove_leftovers(const RepackArguments& arguments, LeftBy left_by) {
  const std::filesystem::path out = arguments.out;
  remove_abandoned_temporaries(out, left_by);
  std::set<std::string> parts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(out), error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t end = name.rfind(".tmp-");
    if (!name.starts_with('.') || end == std::string::npos) continue;
    const std::string part = name.substr(1, end - 1);
    const std::size_t stem = part.find(out.stem().string() + ".part-");
    if (stem == 0 || (stem == 1 && part.front() == '.')) parts.insert(part);
  }
  for (const std::string& part : parts) remove_abandoned_temporaries(out.parent_path() / part, left_by);
}

// Runs before anything is read: the source must survive whatever happens.
void check_places(const RepackArguments& arguments) {
  std::error_code error;
  if (std::filesystem::equivalent(arguments.in, arguments.out, error)) {
    throw OptionError(
        fmt::format("{} is both input and output; choose another name for the output", arguments.out));
  }
  StagedFile(arguments.out, arguments.force).probe(arguments.dry_run ? 0 : kMetadataRoomBytes);
  remove_leftovers(arguments, LeftBy::any_process);
}

// glibc raises the size from which it maps blocks separately each time a large block is freed; windows and
// chunks then come from its heaps, which keep freed memory. A fixed size turns that off (mallopt(3)).
void return_freed_memory() {
  constexpr int kMappedBytes = 256 * 1024;
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  ::mallopt(M_ARENA_MAX, 2);
}

// After the process that repacks was ended by a signal.
[[noreturn]] void throw_crashed(const RepackArguments& arguments, int signal) {
  const std::string result = fmt::format("{} was not written{}", arguments.out,
                                         in_parts(arguments) ? "; its complete parts stay" : "");
  if (signal == SIGKILL) {
    throw FileError(
        fmt::format("{}: repacking it was killed (SIGKILL), as the kernel does when memory ends; free some, "
                    "or give a smaller --memory; {}",
                    arguments.in, result));
  }
  throw FileError(
      fmt::format("{}: repacking it crashed ({}), as libhdf5 does over damaged files; restore the file from "
                  "a good copy, or report it with this file; {}",
                  arguments.in, ::strsignal(signal), result));
}

int repack_here(const RepackArguments& arguments) {
  const Clock::time_point start = Clock::now();
  return_freed_memory();
  RepackSettings settings = make_settings(arguments);
  check_places(arguments);
  const auto file = open_isolated(arguments.in);
  refuse_no_change(*file, arguments);
  if (file->swmr_writer()) {
    throw FileError(
        fmt::format("{0}: a SWMR writer has it open; repack it once the writer has closed it; if "
                    "none runs: h5clear -s --increment=0 {0}",
                    arguments.in));
  }
  const ValueFiles values(file);
  values.check_output(arguments.out);
  if (in_parts(arguments)) return repack_in_parts(file, values, arguments, settings);
  std::vector<RepackJob> jobs = choose_jobs(file, arguments);
  settings = settings_for(jobs, settings);
  ::malloc_trim(0);  // returns memory that opening the file took
  for (RepackJob& job : jobs) plan_job(job, settings);
  const CopyPlan plan = copy_plan(jobs, arguments);
  const Clock::time_point rehearsal_start = Clock::now();
  rehearse_copy(*file, plan);
  const double rehearsal_s = std::chrono::duration<double>(Clock::now() - rehearsal_start).count();
  // libhdf5 copies all objects that are not rewritten, from one file of this process to another.
  const auto copied = H5File::open_at_risk(arguments.in, arguments.in);
  say_moved_links(check_copyable(*copied, plan));
  const RepackEstimate estimate = estimate_repack(jobs, arguments.in, rehearsal_s, settings);
  require_free_space(arguments.out,
                     {.bytes = saturating_sum(estimate.bytes_out, estimate.scratch_bytes),
                      .largest_file_bytes = std::max(estimate.bytes_out, estimate.scratch_bytes),
                      .estimated = true});
  say_lines(plan_text(jobs, arguments, estimate));
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (arguments.dry_run) {
    if (arguments.json) print(json_text(repack_json(jobs, arguments, estimate, 0, seconds())));
    return kDone;
  }

  const UnfinishedOutput unfinished;  // outlives the writer, which removes the file
  H5Writer writer(arguments.out, arguments.force, *copied, arguments.latest());
  copy_objects(*copied, writer, plan, check_interrupted);
  {
    const double passes = settings.verify ? 2 : 1;
    Progress progress("repack", ProgressUnit::bytes, passes * static_cast<double>(estimate.decoded_bytes));
    const Advance advance = [&](std::uint64_t bytes) { progress.advance(static_cast<double>(bytes)); };
    std::vector<ChunkSeals> seals;
    for (RepackJob& job : jobs) seals.push_back(write_job(job, writer, settings, advance));
    file->check_unchanged();
    values.check_unchanged();
    writer.close();
    if (settings.verify) {
      verify_objects(*copied, writer.temporary(), plan, settings.out);
      verify_jobs(writer.temporary(), jobs, seals, settings, advance);
    }
  }
  check_interrupted();
  writer.commit();
  const std::uint64_t file_bytes = std::filesystem::file_size(arguments.out);
  print(arguments.json ? json_text(repack_json(jobs, arguments, estimate, file_bytes, seconds()))
                       : result_text(jobs, arguments, file_bytes, seconds()));
  return kDone;
}

int repack(const RepackArguments& arguments) {
  check_arguments(arguments);
  if (in_parts(arguments)) part_choice(arguments);  // refuses wrong numbers before anything is read
  const std::optional<int> code =
      go_on_in_child({.clean_up = [&] { remove_leftovers(arguments, LeftBy::ended_child); },
                      .crashed = [&](int signal) { throw_crashed(arguments, signal); }});
  return code ? *code : repack_here(arguments);
}

constexpr const char* kRepackFooter =
    R"(Rewrites the datasets that look like images, or those that --dataset names. Everything else is kept:
groups, attributes, links, committed types, dimension scales, references, fill values, creation order. An
object that cannot be kept is refused by name before OUT is created. OUT is written under a temporary name,
verified (SHA-256 of the decoded values of both files), synced to storage and renamed; IN is never changed.

--chunk takes samples per chunk, a size (whole samples that fit in it), a full shape, none (contiguous), or
auto: whole samples of about 1 MiB decoded, at most 20,000. Without --chunk or --filter the source's is kept;
datasets whose chunks and filters do not change are copied without decoding. With --window, auto takes the
largest of these chunks with which a loader of such windows decodes each chunk 1.2 times at most; the plan says
how much cache that needs.

If one row of source chunks exceeds --memory, the chunks are decoded again for each part that fits, or once
into a scratch file next to OUT, whichever is estimated to be cheaper; the first lines printed say so.

--shuffle-rows reorders every dataset with as many rows as a rewritten one, data and labels alike, for
readers that read the file in order. Attributes that count rows are not adjusted.

--split N writes the rows of the rewritten datasets, and of those with as many rows, to OUT.part-I-of-N.h5
next to OUT (for train.h5: train.part-0-of-4.h5), and OUT with everything else and a virtual dataset over the
parts, which needs HDF5 1.10. Machines that share the folder can each write one part with --part I/N; the last
one to finish writes OUT. --resume keeps complete parts if the work is interrupted: the same command continues.

Examples:
  h5feed repack slow.h5 fast.h5 --chunk auto
  h5feed repack slow.h5 fast.h5 --dataset train/images --chunk 100 --filter shuffle+gzip:1 --jobs 8
  h5feed repack era5.h5 fast.h5 --dataset fields --chunk auto --window=-2,-1,0,1 --shuffle chunk:2
  h5feed repack slow.h5 raw.h5 --chunk none --maxshape fixed
  h5feed repack train.h5 shuffled.h5 --chunk 100 --shuffle-rows 7
  h5feed repack huge.h5 fast.h5 --chunk 100 --resume
  h5feed repack huge.h5 fast.h5 --chunk 100 --split 4 --resume
  srun --ntasks 4 h5feed repack huge.h5 fast.h5 --chunk 100 --part auto
  h5feed repack huge.h5 fast.h5 --chunk 100x3x218x178 --memory 512MiB --dry-run)";

}  // namespace

void add_repack(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RepackArguments>();
  CLI::App* const command =
      app.add_subcommand("repack", "Rewrite a file with other chunks and filters; keep the rest");
  command->add_option("IN", arguments->in, "File to read")->required();
  command->add_option("OUT", arguments->out, "File to write")->required();
  command
      ->add_option("--dataset", arguments->datasets,
                   "Rewrite only these datasets; default: those that look like images")
      ->type_name("PATH");
  command
      ->add_option("--chunk", arguments->chunk,
                   "Samples per chunk, a size, a shape, auto, or none (contiguous)")
      ->type_name("N|4MiB|AxBxC|auto|none");
  command
      ->add_option(
          "--window", arguments->window,
          "With --chunk auto: rows of a sample, as offsets such as -2,-1,0,1; chunks are then decoded "
          "1.2 times at most")
      ->type_name("N,N,...");
  command->add_option("--shuffle", arguments->shuffle, "Order in which windows are read; default: chunk:16")
      ->type_name("ORDER");
  command
      ->add_option("--cache-bytes", arguments->cache_bytes,
                   "Cache of the loader that reads windows; default: the loader's")
      ->type_name("SIZE");
  add_filter_option(*command, arguments->filter, "the source's");
  command->add_option("--jobs", arguments->jobs, "Threads; default: the usable cores")->type_name("N");
  command
      ->add_option("--memory", arguments->memory, "Memory limit; default: a quarter of the available memory")
      ->type_name("SIZE");
  command->add_option("--maxshape", arguments->max_shape, "fixed: rewritten datasets can no longer grow")
      ->type_name("fixed");
  command
      ->add_option("--shuffle-rows", arguments->shuffle_rows,
                   "Shuffle the rows with SEED, in the same order for all datasets with as many rows")
      ->type_name("SEED");
  command
      ->add_option("--split", arguments->split,
                   "Write the rows to N files next to OUT, and OUT as a virtual dataset over them")
      ->type_name("N");
  command
      ->add_option("--part", arguments->part,
                   "Write only file I of --split N, counted from 0; auto: the rank set by Slurm or mpirun")
      ->type_name("I/N|auto");
  command->add_flag("--resume", arguments->resume,
                    "Work in parts that stay next to OUT if interrupted, and continue after them");
  command->add_option("--libver", arguments->libver, "latest: newest file format, which HDF5 1.8 cannot read")
      ->type_name("latest");
  command->add_flag("--dry-run", arguments->dry_run, "Print what would be done and its cost, and stop");
  command->add_flag("--no-verify", arguments->no_verify, "Do not read OUT again to verify its values");
  command->add_flag("--force", arguments->force, "Replace OUT if it exists");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(kRepackFooter);
  command->callback([arguments, &action] { action = [arguments] { return repack(*arguments); }; });
}

}  // namespace h5feed::cli
