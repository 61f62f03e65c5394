// SPDX-License-Identifier: Apache-2.0
#include "h5feed/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "flow/measure/ratio.hpp"
#include "flow/verdict/epoch_verdict.hpp"

namespace h5feed {
namespace {

// Returns the number of bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t character_bytes(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes == 0 || first > 0xF4 || bytes > text.size()) return 0;
  std::uint32_t code = bytes == 1 ? first : first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kFirst = {0, 0, 0x80, 0x800, 0x10000};
  return code < kFirst[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : bytes;
}

// Returns a string of JSON. Names of files may hold any bytes: those that are no UTF-8 become question marks.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const char c = text.front();
    if (bytes == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return out + "\"";
}

}  // namespace

const char* name_of(Verdict::Cause cause) noexcept {
  switch (cause) {
    case Verdict::Cause::consumer:
      return "consumer";
    case Verdict::Cause::read:
      return "read";
    case Verdict::Cause::decode:
      return "decode";
    case Verdict::Cause::gather:
      return "gather";
    case Verdict::Cause::transform:
      return "transform";
    case Verdict::Cause::transfer:
      return "transfer";
    case Verdict::Cause::other:
      return "other";
  }
  return "";
}

double Verdict::samples_per_s() const noexcept { return real_ratio(static_cast<double>(samples), seconds); }

double Verdict::consumer_samples_per_s() const noexcept {
  return real_ratio(static_cast<double>(samples), seconds - (waits.total() - waits.free_slot));
}

double Verdict::wait_share() const noexcept { return std::min(1.0, real_ratio(waits.total(), seconds)); }

std::string Verdict::to_string() const {
  const double own = real_ratio(waits.free_slot, waits.total());
  std::string text;
  if (headroom) {
    text = fmt::format(
        "headroom: {:.0f} samples/s with one batch repeated; no loader makes this training faster",
        consumer_samples_per_s());
  } else if (bottleneck == Cause::consumer) {
    text = fmt::format("the consumer was the slow side: it waited {:.1f} % of the time", wait_share() * 100);
    if (own * wait_share() >= 0.001)
      text += fmt::format(", {:.1f} % for its own work on the GPU", own * wait_share() * 100);
  } else {
    double charged = 0;
    for (const auto& [cause, wait] : stage_waits(waits)) charged += cause == bottleneck ? wait : 0;
    text = fmt::format("input-bound: the consumer waited {:.1f} % of the time; {:.0f} % of that was for {}",
                       wait_share() * 100, real_ratio(charged, waits.total()) * 100, waited_for(bottleneck));
    if (own >= 0.001) text += fmt::format(", {:.0f} % for its own work on the GPU", own * 100);
  }
  if (!advice.empty()) text += fmt::format("; {}", fmt::join(advice, "; "));
  return text;
}

std::string Verdict::to_json() const {
  std::string clauses;
  for (const std::string& clause : advice) clauses += (clauses.empty() ? "" : ", ") + json_text(clause);
  return fmt::format(
      "{{\"epoch\": {}, \"rank\": {}, \"finished\": {}, \"headroom\": {}, \"loader\": {}, \"data\": {}, "
      "\"dataset_samples\": {}, \"samples\": {}, \"batches\": {}, "
      "\"seconds\": {:.6g}, \"samples_per_s\": {:.6g}, \"consumer_samples_per_s\": {:.6g}, "
      "\"wait_share\": {:.6g}, \"bottleneck\": \"{}\", \"wait_read_s\": {:.6g}, \"wait_decode_s\": {:.6g}, "
      "\"wait_gather_s\": {:.6g}, \"wait_transform_s\": {:.6g}, \"wait_transfer_s\": {:.6g}, "
      "\"wait_free_slot_s\": {:.6g}, \"wait_other_s\": {:.6g}, \"num_workers\": {}, \"usable_cpus\": {}, "
      "\"needed_workers\": {:.6g}, \"read_bytes_per_s\": {:.6g}, \"needed_bytes_per_s\": {:.6g}, "
      "\"advice\": [{}]}}",
      epoch, rank, finished, headroom, loader, json_text(data), dataset_samples, samples, batches, seconds,
      samples_per_s(), consumer_samples_per_s(), wait_share(), name_of(bottleneck), waits.read, waits.decode,
      waits.gather, waits.transform, waits.transfer, waits.free_slot, waits.other, num_workers, usable_cpus,
      needed_workers, read_bytes_per_s, needed_bytes_per_s, clauses);
}

}  // namespace h5feed
