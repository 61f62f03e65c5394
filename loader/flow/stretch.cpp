// SPDX-License-Identifier: Apache-2.0
#include "flow/stretch.hpp"

namespace h5feed {

std::deque<Stretch> rest_of_echo(const EpochPlace& place, std::int64_t factor, std::uint64_t batch_samples) {
  std::deque<Stretch> rest;
  if (place.echo_samples == 0) return rest;
  const std::uint64_t begin = place.position;
  const std::uint64_t end = begin + place.echo_samples;
  std::int64_t repeat = place.repeat;
  if (place.echo_ahead > 0) {
    rest.push_back({begin + place.echo_ahead, end, repeat, repeat + 1, begin});
    ++repeat;
  }
  if (place.echo_samples <= batch_samples) {
    if (repeat < factor) rest.push_back({begin, end, repeat, factor, begin});
    return rest;
  }
  for (; repeat < factor; ++repeat) rest.push_back({begin, end, repeat, repeat + 1, begin});
  return rest;
}

}  // namespace h5feed
