#include "flow/field_kernel.hpp"

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
  // Floats are made by the rule that rounds once; it leaves the values as they are.
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
  throw OptionError(fmt::format("{}:{}: the {} of sample {} does not fit {}; choose a wider {}", info.file,
                                info.path, what, *misfit / info.row_elements() * field.samples_per_row,
                                name_of(to), option));
}

}  // namespace h5feed
