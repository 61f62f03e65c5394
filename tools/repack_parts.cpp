#include "tools/repack_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/attributes.hpp"
#include "store/filters.hpp"
#include "tools/cli.hpp"
#include "tools/interrupt.hpp"
#include "tools/option_text.hpp"
#include "tools/output.hpp"
#include "tools/progress.hpp"
#include "tools/repack_copy.hpp"
#include "tools/repack_report.hpp"
#include "tools/row_range_reader.hpp"
#include "tools/sha256.hpp"

namespace h5feed::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kIdentity = "h5feed_part";

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return parse_number(fmt::format("{}=", name), text);
}

// Rows of one dataset that one part holds.
struct Rows {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

class PartedRepack {
 public:
  PartedRepack(const std::shared_ptr<H5File>& file, const RepackArguments& arguments,
               const RepackSettings& settings)
      : start_(Clock::now()), file_(file), arguments_(arguments), settings_(settings) {
    const PartChoice choice = part_choice(arguments);
    split_ = choice.parts > 0;
    only_ = choice.only;
    std::vector<RepackJob> jobs = choose_jobs(file, arguments);
    if (split_) add_row_companions(file, arguments, false, jobs);
    for (RepackJob& job : jobs) {
      const bool in_rows = job.chosen || (split_ && shares_rows(jobs, job.info().shape));
      // A part's edge chunks are not the whole's.
      if (in_rows) job.storage.unfiltered_edge_chunks = false;
      row_job_.push_back(in_rows);
    }
    jobs_ = std::move(jobs);
    parts_ = split_ ? choice.parts : parts_to_resume();
    if (split_) check_parts();
    identity_ = identity();
  }

  int run() {
    say(plan_line());
    if (arguments_.dry_run) return kDone;
    const UnfinishedOutput unfinished;  // outlives the writers, which remove their files
    try {
      Progress progress("repack", ProgressUnit::bytes, total_bytes());
      const Advance advance = [&](std::uint64_t bytes) { progress.advance(static_cast<double>(bytes)); };
      for (std::uint64_t part = 0; part < parts_; ++part) {
        if (!only_ || *only_ == part) write_part(part, advance);
      }
      if (!all_complete()) return report(false);
      split_ ? write_views(advance) : put_together(advance);
    } catch (...) {
      say_what_is_kept();
      throw;
    }
    return report(true);
  }

 private:
  // Enough for little to be lost, and each with several rows of source chunks, which parts would decode
  // twice.
  std::uint64_t parts_to_resume() const {
    constexpr std::uint64_t kPartBytes = 256 * kMiB, kMostParts = 256, kSourceBands = 4;
    std::uint64_t bytes = 0, bands = ~std::uint64_t{0};
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) continue;
      bytes += jobs_[i].info().total_bytes();
      bands = std::min(bands, jobs_[i].info().rows() / jobs_[i].reader->chunk_shape().front());
    }
    const std::uint64_t most = std::clamp<std::uint64_t>(bands / kSourceBands, 1, kMostParts);
    return std::clamp<std::uint64_t>(bytes / kPartBytes, 1, most);
  }

  // Parts end where chunks do: those of each dataset, or where parts are shared, of the chosen one.
  std::uint64_t unit_rows(const RepackJob& job) const {
    std::uint64_t unit = job.chosen ? target_chunk_rows(job) : 1;
    for (const RepackJob& other : jobs_) {
      if (split_ && other.chosen && other.info().rows() == job.info().rows())
        unit = std::max(unit, target_chunk_rows(other));
    }
    return unit;
  }
  static std::uint64_t target_chunk_rows(const RepackJob& job) {
    return job.storage.chunk_shape.empty() ? 1 : job.storage.chunk_shape.front();
  }

  Rows rows_of(const RepackJob& job, std::uint64_t part) const {
    const std::uint64_t unit = unit_rows(job), all = job.info().rows();
    const std::uint64_t chunks = (all + unit - 1) / unit;
    const auto begin = [&](std::uint64_t i) { return std::min(all, chunks * i / parts_ * unit); };
    return {begin(part), begin(part + 1) - begin(part)};
  }

  void check_parts() const {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!jobs_[i].chosen) continue;
      const std::uint64_t unit = unit_rows(jobs_[i]);
      const std::uint64_t chunks = (jobs_[i].info().rows() + unit - 1) / unit;
      if (chunks >= parts_) continue;
      throw OptionError(fmt::format("--split {}: {} has {} {} of {} rows only; split it into fewer", parts_,
                                    jobs_[i].info().path, chunks, chunks == 1 ? "chunk" : "chunks", unit));
    }
  }

  // Of the source as it is, and of all that decides what a part holds.
  std::string identity() const {
    const std::filesystem::path in = arguments_.in;
    std::string text = fmt::format("{} {} {}", std::filesystem::file_size(in),
                                   std::filesystem::last_write_time(in).time_since_epoch().count(), parts_);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) continue;
      text += fmt::format("|{} {} {}", jobs_[i].info().path, jobs_[i].info().shape_text(),
                          format_shape(jobs_[i].storage.chunk_shape));
      for (const FilterSpec& filter : jobs_[i].storage.filters) {
        text += fmt::format(" {}", filter.id);
        for (const unsigned param : filter.params) text += fmt::format(",{}", param);
      }
    }
    Sha256 digest;
    digest.update(std::as_bytes(std::span(text)));
    return digest.finish();
  }

  std::filesystem::path part_path(std::uint64_t part) const {
    const std::filesystem::path out = settings_.out;
    const std::string ending = out.extension().string();
    return out.parent_path() /
           fmt::format("{}{}.part-{}-of-{}{}", split_ ? "" : ".", out.stem().string(), part, parts_, ending);
  }
  std::string part_identity(std::uint64_t part) const {
    return fmt::format("{} {}/{}", identity_, part, parts_);
  }
  bool complete(std::uint64_t part) const {
    return text_attribute(part_path(part), "/", kIdentity) == part_identity(part);
  }
  bool all_complete() const {
    for (std::uint64_t part = 0; part < parts_; ++part) {
      if (!complete(part)) return false;
    }
    return true;
  }

  double total_bytes() const {
    std::uint64_t bytes = 0;
    for (const RepackJob& job : jobs_) bytes += job.info().total_bytes();
    const double passes = (settings_.verify ? 2 : 1) * (split_ ? 1 : 2);
    return passes * static_cast<double>(bytes) / (only_ ? static_cast<double>(parts_) : 1);
  }

  std::string plan_line() const {
    std::uint64_t done = 0;
    for (std::uint64_t part = 0; part < parts_; ++part) done += complete(part) ? 1U : 0U;
    std::string datasets;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) continue;
      const RepackJob& job = jobs_[i];
      datasets += fmt::format(
          "\n  {} ({}): {} {}, {} decoded", job.info().path, job.info().shape_text(),
          job.storage.chunk_shape.empty() ? "contiguous" : "chunks " + format_shape(job.storage.chunk_shape),
          format_filters(job.storage.filters), format_bytes(job.info().total_bytes()));
    }
    return fmt::format(
        "repacking {} into {} in {} {}, {}{}{}", printable(arguments_.in), printable(arguments_.out), parts_,
        parts_ == 1 ? "part" : "parts", split_ ? "kept beside it" : "removed at the end",
        done > 0 && (arguments_.resume || only_) ? fmt::format("; {} are there already", done) : "",
        datasets);
  }

  void write_part(std::uint64_t part, const Advance& advance) {
    if ((arguments_.resume || only_) && complete(part)) return;
    std::vector<RepackJob> jobs;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) continue;
      const Rows rows = rows_of(jobs_[i], part);
      if (rows.count == 0) continue;
      RepackJob job{.reader = make_row_range(jobs_[i].reader, rows.first, rows.count, false),
                    .storage = jobs_[i].storage,
                    .chosen = jobs_[i].chosen};
      for (std::size_t d = 0; d < job.storage.chunk_shape.size(); ++d) {
        job.storage.chunk_shape[d] = std::min(job.storage.chunk_shape[d], job.info().shape[d]);
      }
      // What is kept of a part must fit whole chunks of the others, save for the last one's.
      if (!split_) job.storage.chunk_shape = jobs_[i].storage.chunk_shape;
      plan_job(job, settings_);
      jobs.push_back(std::move(job));
    }
    RepackSettings settings = settings_;
    settings.out = part_path(part);
    check_space(arguments_, estimate_repack(jobs, arguments_.in, settings));
    H5Writer writer(settings.out, arguments_.force || !split_);
    writer.write_attribute("/", {kIdentity, part_identity(part)});
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
    writer.close();
    if (settings.verify) verify_jobs(writer.temporary(), jobs, seals, settings, advance);
    check_interrupted();
    writer.commit();
  }

  // Everything of the source but the rows that are elsewhere.
  void write_views(const Advance& advance) {
    RepackArguments arguments = arguments_;
    arguments.libver = "latest";  // HDF5 1.8 has no virtual datasets
    std::vector<RepackJob> others;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) others.push_back(jobs_[i]);
    }
    for (RepackJob& job : others) plan_job(job, settings_);
    CopyPlan plan = copy_plan(others, arguments);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) continue;
      CopiedStorage view{.fixed_max_shape = true};
      for (std::uint64_t part = 0; part < parts_; ++part) {
        view.parts.push_back(
            {part_path(part).filename().string(), jobs_[i].info().path, rows_of(jobs_[i], part).count});
      }
      plan.filled_by_caller.emplace(jobs_[i].info().path, std::move(view));
    }
    check_copyable(*file_, plan);
    H5Writer writer(settings_.out, arguments_.force, *file_, true);
    copy_objects(*file_, writer, plan, check_interrupted);
    std::vector<ChunkSeals> seals;
    for (RepackJob& job : others) seals.push_back(write_job(job, writer, settings_, advance));
    finish(writer, plan, others, seals, advance);
  }

  // The chunks of all parts, as they are stored.
  void put_together(const Advance& advance) {
    for (RepackJob& job : jobs_) plan_job(job, settings_);
    const CopyPlan plan = copy_plan(jobs_, arguments_);
    check_copyable(*file_, plan);
    H5Writer writer(settings_.out, arguments_.force, *file_, arguments_.latest());
    copy_objects(*file_, writer, plan, check_interrupted);
    std::vector<RepackJob> others, pieces;
    std::vector<ChunkSeals> seals, piece_seals;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!row_job_[i]) {
        others.push_back(jobs_[i]);
        seals.push_back(write_job(others.back(), writer, settings_, advance));
        continue;
      }
      for (std::uint64_t part = 0; part < parts_; ++part) {
        const Rows rows = rows_of(jobs_[i], part);
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
        const auto whole = ChunkReader::open(copy, copy->describe(pieces[i].info().path));
        verify_job(
            pieces[i],
            *make_row_range(whole, pieces[i].first_row, pieces[i].info().rows(), whole->info().byte_swapped),
            piece_seals[i], settings_, advance);
      }
    }
    finish(writer, plan, others, seals, advance);
    pieces.clear();
    std::error_code ignored;
    for (std::uint64_t part = 0; part < parts_; ++part) std::filesystem::remove(part_path(part), ignored);
  }

  RepackJob piece(const RepackJob& whole, std::uint64_t part, const Rows& rows) const {
    const auto file = H5File::open(part_path(part));
    auto reader = ChunkReader::open(file, file->describe(whole.info().path));
    RepackJob job{.reader = make_row_range(reader, 0, rows.count, whole.info().byte_swapped),
                  .storage = whole.storage,
                  .chosen = true,
                  .first_row = rows.first};
    // As the part has them: parameters that libhdf5 completed are no change.
    if (!whole.storage.chunk_shape.empty()) job.storage.filters = reader->info().filters;
    plan_job(job, settings_);
    return job;
  }

  void finish(H5Writer& writer, const CopyPlan& plan, const std::vector<RepackJob>& others,
              const std::vector<ChunkSeals>& seals, const Advance& advance) {
    file_->check_unchanged();
    writer.close();
    if (settings_.verify) {
      verify_objects(*file_, writer.temporary(), plan, settings_.out);
      verify_jobs(writer.temporary(), others, seals, settings_, advance);
    }
    check_interrupted();
    writer.commit();
  }

  void say_what_is_kept() const noexcept {
    try {
      std::uint64_t done = 0;
      for (std::uint64_t part = 0; part < parts_; ++part) done += complete(part) ? 1U : 0U;
      if (done == 0) return;
      say(fmt::format(
          "{} of {} parts are complete and stay beside {}; the same command with --resume goes on", done,
          parts_, printable(arguments_.out)));
    } catch (const std::exception&) {
      // The error that is on its way says what matters.
    }
  }

  int report(bool whole) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (arguments_.json) {
      Json parts = Json::array();
      for (std::uint64_t part = 0; split_ && part < parts_; ++part) parts.push_back(part_path(part).string());
      print(json_text({{"file", arguments_.in},
                       {"out", arguments_.out},
                       {"complete", whole},
                       {"parts", parts_},
                       {"part", only_ ? Json(*only_) : Json()},
                       {"part_files", parts},
                       {"verified", settings_.verify},
                       {"seconds", seconds}}));
      return kDone;
    }
    std::string text;
    if (only_) text += fmt::format("wrote {}\n", printable(part_path(*only_).string()));
    if (!whole) {
      text += fmt::format("{} appears when all {} parts are there\n", printable(arguments_.out), parts_);
    } else {
      text += fmt::format("wrote {} ({}){} in {:.1f} s, {}\n", printable(arguments_.out),
                          format_bytes(std::filesystem::file_size(arguments_.out)),
                          split_ ? fmt::format(" and {} parts beside it", parts_) : "", seconds,
                          settings_.verify ? "values verified (SHA-256 of both sides)" : "not verified");
    }
    print(text);
    return kDone;
  }

  const Clock::time_point start_;
  const std::shared_ptr<H5File>& file_;
  const RepackArguments& arguments_;
  const RepackSettings& settings_;
  bool split_ = false;
  std::optional<std::uint64_t> only_;
  std::uint64_t parts_ = 1;
  std::vector<RepackJob> jobs_;
  std::vector<bool> row_job_;  // whose rows are in the parts
  std::string identity_;
};

}  // namespace

bool in_parts(const RepackArguments& arguments) noexcept {
  return arguments.resume || !arguments.split.empty() || !arguments.part.empty();
}

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

int repack_in_parts(const std::shared_ptr<H5File>& file, const RepackArguments& arguments,
                    const RepackSettings& settings) {
  return PartedRepack(file, arguments, settings).run();
}

}  // namespace h5feed::cli
