// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/repack/copy.hpp"
#include "tools/repack/part_plan.hpp"
#include "tools/repack/part_values.hpp"
#include "tools/repack/report.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/row_range_reader.hpp"

namespace h5feed::cli {
namespace {

class PartedRepack {
 public:
  PartedRepack(const std::shared_ptr<H5File>& file, const ValueFiles& values,
               const RepackArguments& arguments, const RepackSettings& settings)
      : start_(Clock::now()),
        file_(file),
        values_(values),
        arguments_(arguments),
        plan_(file, values, arguments),
        settings_(settings_for(plan_.jobs(), settings)),
        jobs_(plan_.jobs()) {
    for (RepackJob& job : jobs_) plan_job(job, settings_);
  }

  int run() {
    plan_.check_others();
    if (!arguments_.dry_run) require_room_for_all();
    say_lines(plan_.text());
    if (arguments_.dry_run) return kDone;
    // What the last step would refuse is refused before the parts are written.
    const CopyPlan plan = plan_.split() ? plan_of_views() : copy_plan(jobs_, arguments_);
    rehearse_copy(*file_, plan);
    say_moved_links(check_copyable(*H5File::open_at_risk(file_->path(), file_->path()), plan));
    const UnfinishedOutput unfinished;  // outlives the writers, which remove their files
    try {
      Progress progress("repack", ProgressUnit::bytes, total_bytes());
      const Advance advance = [&](std::uint64_t bytes) { progress.advance(static_cast<double>(bytes)); };
      for (std::uint64_t part = 0; part < plan_.parts(); ++part) {
        if (!plan_.only() || *plan_.only() == part) write_part(part, advance);
      }
      if (plan_.count_complete() < plan_.parts()) return report(false);
      plan_.split() ? write_views(plan, advance) : put_together(plan, advance);
    } catch (const FileError&) {
      if (!another_wrote_views()) {
        say_what_is_kept();
        throw;
      }
    } catch (...) {
      say_what_is_kept();
      throw;
    }
    return report(true);
  }

 private:
  double total_bytes() const {
    std::uint64_t bytes = 0;
    for (const RepackJob& job : plan_.jobs()) bytes += job.info().total_bytes();
    const double passes = (settings_.verify ? 2 : 1) * (plan_.split() ? 1 : 2);
    return passes * static_cast<double>(bytes) / (plan_.only() ? static_cast<double>(plan_.parts()) : 1);
  }

  bool is_there(std::uint64_t part) const {
    return (arguments_.resume || plan_.only()) && plan_.complete(part);
  }

  // Checks before the first part is written that the last part, and the assembled file, will fit too.
  void require_room_for_all() const {
    std::vector<RepackJob> jobs;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (plan_.in_parts(i)) jobs.push_back(jobs_[i]);
    }
    const RepackEstimate all = estimate_repack(jobs, arguments_.in, 0, settings_);
    std::uint64_t missing = 0;
    for (std::uint64_t part = 0; part < plan_.parts(); ++part) {
      if ((!plan_.only() || *plan_.only() == part) && !is_there(part)) ++missing;
    }
    const std::uint64_t part_bytes = (all.bytes_out - all.other_bytes) / plan_.parts();
    const std::uint64_t end_bytes = plan_.split() ? (plan_.only() ? 0 : all.other_bytes) : all.bytes_out;
    require_free_space(settings_.out,
                       {.bytes = saturating_sum(missing * part_bytes, end_bytes),
                        .largest_file_bytes = std::max(missing > 0 ? part_bytes : 0, end_bytes),
                        .estimated = true});
  }

  // Whether a part that is there is kept: where values are verified, only with those that its writer
  // verified.
  bool keeps(std::uint64_t part, const std::vector<RepackJob>& jobs, const Advance& advance) const {
    if (!is_there(part)) return false;
    if (!settings_.verify) return true;
    const PartValues values = values_of_part(plan_.path(part), jobs, settings_, advance);
    if (values == PartValues::as_verified) return true;
    say(fmt::format("{} {}; it is written again", printable(plan_.path(part).string()),
                    values == PartValues::changed ? "no longer holds the values that it was written with"
                                                  : "was written with --no-verify"));
    return false;
  }

  std::vector<RepackJob> jobs_of(std::uint64_t part) const {
    std::vector<RepackJob> jobs;
    for (std::size_t i = 0; i < plan_.jobs().size(); ++i) {
      if (!plan_.in_parts(i)) continue;
      const RepackJob& whole = plan_.jobs()[i];
      const PartRows rows = plan_.rows_of(whole, part);
      if (rows.count == 0) continue;
      RepackJob job{.reader = make_row_range(whole.reader, rows.first, rows.count, false),
                    .storage = whole.storage,
                    .chosen = whole.chosen};
      for (std::size_t d = 0; d < job.storage.chunk_shape.size(); ++d) {
        job.storage.chunk_shape[d] =
            std::min(job.storage.chunk_shape[d], std::max<std::uint64_t>(1, job.info().shape[d]));
      }
      // The chunks of a part that only serves to resume must fit the whole dataset's chunks.
      if (!plan_.split()) job.storage.chunk_shape = whole.storage.chunk_shape;
      plan_job(job, settings_);
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  void write_part(std::uint64_t part, const Advance& advance) {
    std::vector<RepackJob> jobs = jobs_of(part);
    if (keeps(part, jobs, advance)) return;
    RepackSettings settings = settings_;
    settings.out = plan_.path(part);
    const RepackEstimate estimate = estimate_repack(jobs, arguments_.in, 0, settings);
    const std::uint64_t bytes = estimate.bytes_out - estimate.other_bytes;
    require_free_space(settings.out, {.bytes = saturating_sum(bytes, estimate.scratch_bytes),
                                      .largest_file_bytes = std::max(bytes, estimate.scratch_bytes),
                                      .estimated = true});
    H5Writer writer(settings.out, arguments_.force || !plan_.split() || is_there(part));
    writer.write_attribute("/", {kPartIdentity, plan_.identity(part)});
    std::vector<ChunkSeals> seals;
    for (RepackJob& job : jobs) {
      NewDataset dataset{.path = job.info().path,
                         .dtype = job.info().dtype,
                         .shape = job.info().shape,
                         .chunk_shape = job.storage.chunk_shape,
                         .filters = job.storage.filters,
                         .fill_value = job.info().fill_value};
      writer.create_dataset(dataset);
      seals.push_back(write_job(job, writer, settings, advance));
    }
    file_->check_unchanged();
    values_.check_unchanged();
    if (settings.verify) writer.write_attribute("/", {kPartValues, digest_of(seals)});
    writer.close();
    if (settings.verify) verify_jobs(writer.temporary(), jobs, seals, settings, advance);
    check_interrupted();
    writer.commit();
  }

  CopyPlan plan_of_views() const {
    RepackArguments arguments = arguments_;
    arguments.libver = "latest";  // HDF5 1.8 has no virtual datasets
    CopyPlan plan = copy_plan(others(), arguments);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!plan_.in_parts(i)) continue;
      const RepackJob& whole = jobs_[i];
      CopiedStorage view{.fixed_max_shape = true};
      for (std::uint64_t part = 0; part < plan_.parts(); ++part) {
        view.parts.push_back(
            {plan_.path(part).filename().string(), whole.info().path, plan_.rows_of(whole, part).count});
      }
      plan.filled_by_caller.emplace(whole.info().path, std::move(view));
    }
    return plan;
  }

  // The datasets that are not in parts.
  std::vector<RepackJob> others() const {
    std::vector<RepackJob> jobs;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!plan_.in_parts(i)) jobs.push_back(jobs_[i]);
    }
    return jobs;
  }

  // Writes everything of the source except the rows, which are in the parts.
  void write_views(const CopyPlan& plan, const Advance& advance) {
    std::vector<RepackJob> jobs = others();
    const auto copied = H5File::open_at_risk(file_->path(), file_->path());
    H5Writer writer(settings_.out, arguments_.force, *copied, true);
    copy_objects(*copied, writer, plan, check_interrupted);
    std::vector<ChunkSeals> seals;
    for (RepackJob& job : jobs) seals.push_back(write_job(job, writer, settings_, advance));
    writer.close();
    check_views(writer.temporary());
    finish(writer, *copied, plan, jobs, seals, advance);
  }

  // Throws the error of a virtual dataset whose sources are not the parts that it expects.
  void check_views(const std::filesystem::path& path) const {
    const auto file = H5File::open(path);
    const ScopedLogSink quiet(ignore_log);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!plan_.in_parts(i)) continue;
      const DatasetInfo view = file->describe(jobs_[i].info().path);
      open_chunk_reader(file, view);
      if (view.layout != StorageLayout::virtual_dataset || view.shape != jobs_[i].info().shape) {
        throw FileError(fmt::format("{}:{} is not what the parts make; --force replaces the file",
                                    path.string(), jobs_[i].info().path));
      }
    }
  }

  // Processes that write the last parts at the same time all find the parts complete, and one of them is
  // first to write OUT, which was not there when they began.
  bool another_wrote_views() const {
    if (!plan_.only() || arguments_.force) return false;
    try {
      if (plan_.count_complete() < plan_.parts()) return false;
      check_views(settings_.out);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Copies the chunks of all parts as stored.
  void put_together(const CopyPlan& plan, const Advance& advance) {
    const auto copied = H5File::open_at_risk(file_->path(), file_->path());
    H5Writer writer(settings_.out, arguments_.force, *copied, arguments_.latest());
    copy_objects(*copied, writer, plan, check_interrupted);
    std::vector<RepackJob> others, pieces;
    std::vector<ChunkSeals> seals, piece_seals;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!plan_.in_parts(i)) {
        others.push_back(jobs_[i]);
        seals.push_back(write_job(others.back(), writer, settings_, advance));
        continue;
      }
      for (std::uint64_t part = 0; part < plan_.parts(); ++part) {
        const PartRows rows = plan_.rows_of(jobs_[i], part);
        if (rows.count == 0) continue;
        pieces.push_back(piece(jobs_[i], part, rows));
        piece_seals.push_back(write_job(pieces.back(), writer, settings_, advance));
      }
    }
    writer.close();
    if (settings_.verify) {
      const auto copy = H5File::open(writer.temporary());
      const ScopedLogSink quiet(ignore_log);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto whole = open_chunk_reader(copy, copy->describe(pieces[i].info().path));
        verify_job(
            pieces[i],
            *make_row_range(whole, pieces[i].first_row, pieces[i].info().rows(), whole->info().byte_swapped),
            piece_seals[i], settings_, advance);
      }
    }
    finish(writer, *copied, plan, others, seals, advance);
    pieces.clear();
    std::error_code ignored;
    for (std::uint64_t part = 0; part < plan_.parts(); ++part)
      std::filesystem::remove(plan_.path(part), ignored);
  }

  RepackJob piece(const RepackJob& whole, std::uint64_t part, const PartRows& rows) const {
    const auto file = H5File::open(plan_.path(part));
    auto reader = open_chunk_reader(file, file->describe(whole.info().path));
    RepackJob job{.reader = make_row_range(reader, 0, rows.count, whole.byte_swapped),
                  .storage = whole.storage,
                  .byte_swapped = whole.byte_swapped,
                  .chosen = true,
                  .first_row = rows.first};
    // Uses the part's filters: parameters that libhdf5 completed are not a change.
    if (!whole.storage.chunk_shape.empty()) job.storage.filters = reader->info().filters;
    plan_job(job, settings_);
    return job;
  }

  void finish(H5Writer& writer, const H5File& copied, const CopyPlan& plan,
              const std::vector<RepackJob>& others, const std::vector<ChunkSeals>& seals,
              const Advance& advance) {
    file_->check_unchanged();
    values_.check_unchanged();
    writer.close();
    if (settings_.verify) {
      verify_objects(copied, writer.temporary(), plan, settings_.out);
      verify_jobs(writer.temporary(), others, seals, settings_, advance);
    }
    check_interrupted();
    writer.commit();
  }

  void say_what_is_kept() const noexcept {
    try {
      const std::uint64_t done = plan_.count_complete();
      if (done == 0) return;
      say(fmt::format("{} of {} parts {} next to {}; the same command{} continues", done, plan_.parts(),
                      done == 1 ? "is complete and stays" : "are complete and stay",
                      printable(arguments_.out), arguments_.resume || plan_.only() ? "" : " with --resume"));
    } catch (const std::exception&) {
      // The exception in flight has the relevant message.
    }
  }

  // Whether the values of what was written here were verified, and of the parts that others wrote, by those.
  bool verified() const {
    if (!settings_.verify) return false;
    for (std::uint64_t part = 0; plan_.only() && part < plan_.parts(); ++part) {
      if (plan_.complete(part) && !was_verified(plan_.path(part))) return false;
    }
    return true;
  }

  std::string verified_text() const {
    if (verified()) {
      return plan_.only()
                 ? "values verified (SHA-256 of both sides, of each part by the process that wrote it)"
                 : "values verified (SHA-256 of both sides)";
    }
    return settings_.verify ? "not all verified: a part was written with --no-verify" : "not verified";
  }

  int report(bool whole) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (arguments_.json) {
      Json parts = Json::array();
      for (std::uint64_t part = 0; plan_.split() && part < plan_.parts(); ++part)
        parts.push_back(plan_.path(part).string());
      print(json_text({{"file", arguments_.in},
                       {"out", arguments_.out},
                       {"complete", whole},
                       {"parts", plan_.parts()},
                       {"part", plan_.only() ? Json(*plan_.only()) : Json()},
                       {"part_files", parts},
                       {"verified", verified()},
                       {"seconds", seconds}}));
      return kDone;
    }
    std::string text;
    if (plan_.only()) text += fmt::format("wrote {}\n", printable(plan_.path(*plan_.only()).string()));
    if (!whole) {
      text +=
          fmt::format("{} appears when all {} parts are there\n", printable(arguments_.out), plan_.parts());
    } else {
      text += fmt::format("wrote {} ({}){} in {:.1f} s, {}\n", printable(arguments_.out),
                          format_bytes(std::filesystem::file_size(arguments_.out)),
                          plan_.split() ? fmt::format(" and {} parts next to it", plan_.parts()) : "",
                          seconds, verified_text());
    }
    print(text);
    return kDone;
  }

  const Clock::time_point start_;
  const std::shared_ptr<H5File>& file_;
  const ValueFiles& values_;
  const RepackArguments& arguments_;
  const PartPlan plan_;
  const RepackSettings settings_;
  std::vector<RepackJob> jobs_;  // those of the plan, with how each is copied
};

}  // namespace

bool in_parts(const RepackArguments& arguments) noexcept {
  return arguments.resume || !arguments.split.empty() || !arguments.part.empty();
}

int repack_in_parts(const std::shared_ptr<H5File>& file, const ValueFiles& values,
                    const RepackArguments& arguments, const RepackSettings& settings) {
  return PartedRepack(file, values, arguments, settings).run();
}

}  // namespace h5feed::cli
