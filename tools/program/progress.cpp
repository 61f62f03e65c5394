// SPDX-License-Identifier: Apache-2.0
#include "tools/program/progress.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/byte_units.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostBarColumns = 30;
constexpr std::chrono::seconds kSilence{1};
constexpr std::chrono::milliseconds kInterval{100};

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(std::string_view label, ProgressUnit unit, double done, double total,
                          double elapsed_s, std::size_t width) {
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
  std::string figures = fmt::format("{:3.0f} %", std::floor(share * 100));
  if (unit == ProgressUnit::bytes && elapsed_s > 0) {
    figures += fmt::format("  {}/s", format_bytes(static_cast<std::uint64_t>(done / elapsed_s)));
  }
  if (unit == ProgressUnit::items && elapsed_s > 0) {
    figures += fmt::format("  {}/s", format_count(static_cast<std::uint64_t>(done / elapsed_s)));
  }
  if (share > 0) figures += fmt::format("  {} left", duration_text(elapsed_s * (1 - share) / share));

  const std::size_t fixed = display_width(label) + display_width(figures) + 4;
  if (fixed >= width) return figures.substr(0, width);
  const std::size_t columns = std::min(kMostBarColumns, width - fixed);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(columns));
  return fmt::format("{} [{}{}] {}", label, std::string(filled, '#'), std::string(columns - filled, '.'),
                     figures);
}

Progress::Progress(std::string label, ProgressUnit unit, double total)
    : label_(std::move(label)),
      unit_(unit),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_ + kSilence) {}

Progress::~Progress() { hide(); }

void Progress::advance(double amount) {
  done_ += amount;
  const auto now = Clock::now();
  if (!terminal_ || now < next_draw_) return;
  const std::chrono::duration<double> elapsed = now - start_;
  // "\x1b[K" wipes the rest of a longer previous line.
  const std::string line = fmt::format(
      "\r{}\x1b[K", progress_line(label_, unit_, done_, total_, elapsed.count(), terminal_columns() - 1));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
  next_draw_ = now + kInterval;
}

void Progress::hide() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace h5feed::cli
