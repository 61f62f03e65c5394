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

void check_target_range(const Field& target, DType to) {
  if (!target.is_resident()) return;
  const DatasetInfo& info = target.info();
  const auto misfit = first_out_of_range(info.dtype, target.resident.span(), to);
  if (!misfit) return;
  throw OptionError(fmt::format("{}:{}: the target of sample {} does not fit {}; choose a wider target_dtype",
                                info.file, info.path, *misfit / info.row_elements(), name_of(to)));
}

}  // namespace h5feed
