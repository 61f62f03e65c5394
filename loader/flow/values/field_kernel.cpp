// SPDX-License-Identifier: Apache-2.0
#include "flow/values/field_kernel.hpp"

#include <fmt/format.h>

#include "h5feed/error.hpp"

namespace h5feed {

RowKernelSpec row_kernel_spec(const Field& field, DType to, const std::optional<Normalize>& normalize) {
  RowKernelSpec spec;
  spec.from = field.info().dtype;
  spec.to = to;
  spec.channels = field.geometry.channels;
  spec.pixels = field.geometry.pixels;
  spec.channels_last = field.geometry.channels_last;
  if (normalize) spec.normalize = resolve_normalize(*normalize, spec.from, spec.channels);
  return spec;
}

RowKernelSpec row_kernel_spec(const NamedField& field) {
  const DType to = field.dtype();
  const DType from = field.rows ? field.rows->info().dtype : field.ragged->dtype();
  // Conversions to floats use the normalize kernel, which rounds once; scale 1 keeps the values.
  std::optional<Normalize> normalize = field.options.normalize;
  if (!normalize && to != from && !is_integer(to)) normalize = Normalize{.scale = 1.0};
  if (field.rows) return row_kernel_spec(*field.rows, to, normalize);
  RowKernelSpec spec;
  spec.from = from;
  spec.to = to;
  spec.pixels = field.ragged->element_values();
  if (normalize) spec.normalize = resolve_normalize(*normalize, from, spec.channels);
  return spec;
}

void check_range(const Field& field, DType to, const std::string& what, const char* option) {
  if (!field.is_resident()) return;
  const DatasetInfo& info = field.info();
  const auto misfit = first_out_of_range(info.dtype, field.resident.span(), to);
  if (!misfit) return;
  refuse_value(fmt::format("{}:{}", info.file, short_path(info.path)), what,
               *misfit / info.row_elements() * field.belonging.samples_per_row(),
               number_text(info.dtype, field.resident.data() + *misfit * size_of(info.dtype)), to, option);
}

void refuse_value(const std::string& place, const std::string& what, std::uint64_t sample,
                  const std::string& value, DType to, const char* option) {
  throw OptionError(fmt::format("{}: the {} of sample {} is {}, which {} cannot hold; choose a wider {}",
                                place, what, sample, value, name_of(to), option));
}

}  // namespace h5feed
