// SPDX-License-Identifier: Apache-2.0
#include "store/write/creation_properties.hpp"

#include <span>

#include "store/filters/filters.hpp"

namespace h5feed {

void add_filters(const H5::DSetCreatPropList& plist, const std::vector<FilterSpec>& filters,
                 std::size_t chunk_bytes, std::size_t element_bytes) {
  for (const FilterSpec& given : filters) {
    const FilterSpec filter = completed(given, chunk_bytes, element_bytes);
    const auto id = static_cast<H5Z_filter_t>(filter.id);
    std::span<const unsigned> params = filter.params;
    const std::size_t set_by_plugin = plugin_params(filter.id);
    if (set_by_plugin > 0 && H5Zfilter_avail(id) > 0) params = params.subspan(set_by_plugin);
    const unsigned flags = filter.optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY;
    plist.setFilter(id, flags, params.size(), params.data());
  }
}

herr_t copy_group_properties(hid_t from, hid_t to) {
  unsigned order = 0, most_compact = 0, least_dense = 0;
  hbool_t times = false;
  if (H5Pget_obj_track_times(from, &times) < 0 || H5Pset_obj_track_times(to, times) < 0 ||
      H5Pget_link_creation_order(from, &order) < 0 || H5Pset_link_creation_order(to, order) < 0 ||
      H5Pget_link_phase_change(from, &most_compact, &least_dense) < 0 ||
      H5Pset_link_phase_change(to, most_compact, least_dense) < 0 ||
      H5Pget_attr_creation_order(from, &order) < 0 || H5Pset_attr_creation_order(to, order) < 0 ||
      H5Pget_attr_phase_change(from, &most_compact, &least_dense) < 0) {
    return -1;
  }
  return H5Pset_attr_phase_change(to, most_compact, least_dense);
}

herr_t copy_dataset_properties(hid_t from, hid_t to) {
  H5D_fill_time_t fill_time = H5D_FILL_TIME_IFSET;
  unsigned order = 0, most_compact = 0, least_dense = 0;
  hbool_t times = false;
  if (H5Pget_fill_time(from, &fill_time) < 0 || H5Pset_fill_time(to, fill_time) < 0 ||
      H5Pget_attr_creation_order(from, &order) < 0 || H5Pset_attr_creation_order(to, order) < 0 ||
      H5Pget_attr_phase_change(from, &most_compact, &least_dense) < 0 ||
      H5Pset_attr_phase_change(to, most_compact, least_dense) < 0 ||
      H5Pget_obj_track_times(from, &times) < 0) {
    return -1;
  }
  return H5Pset_obj_track_times(to, times);
}

}  // namespace h5feed
