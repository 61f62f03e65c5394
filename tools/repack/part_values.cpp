// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/part_values.hpp"

#include <memory>
#include <optional>
#include <span>

#include "h5feed/error.hpp"
#include "store/read/reader_factories.hpp"
#include "store/write/attributes.hpp"
#include "tools/program/output.hpp"
#include "tools/program/sha256.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {

std::string digest_of(const std::vector<ChunkSeals>& seals) {
  Sha256 sha256;
  for (const ChunkSeals& dataset : seals) {
    sha256.update(std::as_bytes(std::span(dataset.written)));
    sha256.update(std::as_bytes(std::span(dataset.digests)));
  }
  return sha256.finish();
}

PartValues values_of_part(const std::filesystem::path& part, const std::vector<RepackJob>& jobs,
                          const RepackSettings& settings, const Advance& advance) {
  const ScopedLogSink quiet(ignore_log);
  try {
    const std::optional<std::string> verified = text_attribute(part, "/", kPartValues);
    if (!verified) return PartValues::not_verified;
    const std::shared_ptr<H5File> file = open_isolated(part);
    std::vector<ChunkSeals> seals;
    for (const RepackJob& job : jobs) {
      const auto reader = open_chunk_reader(file, file->describe(job.info().path));
      seals.push_back(seals_of(job, *reader, settings, advance));
    }
    return digest_of(seals) == *verified ? PartValues::as_verified : PartValues::changed;
  } catch (const IsolationError&) {
    throw;
  } catch (const Error&) {
    return PartValues::changed;
  }
}

bool was_verified(const std::filesystem::path& part) {
  return text_attribute(part, "/", kPartValues).has_value();
}

}  // namespace h5feed::cli
