# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The programs that tools/gpu_check.sh runs: built here, or taken from a bundle. Sourced by that script.
# shellcheck disable=SC2034,SC2154  # its variables

declare -A program=()    # path of each program that can be run
declare -A libraries=()  # LD_LIBRARY_PATH of those of a bundle
declare -A absent=()     # why a program cannot be run
readonly all_programs="gpu_results gpu_test gpu_benchmark torch_gpu_test gpu_benchmark_torch"
readonly no_torch=build/gpu/no-torch  # why there are no programs with LibTorch

built_path() {
  case $1 in
    gpu_results | gpu_benchmark*) echo "build/gpu/benchmarks/gpu/$1" ;;
    *) echo "build/gpu/tests/gpu/$1" ;;
  esac
}

# run MOST NAME ARGUMENT...: runs a program for at most MOST seconds.
run() {
  local most=$1 name=$2
  shift 2
  limited "$most" env ${libraries[$name]:+"LD_LIBRARY_PATH=${libraries[$name]}"} "${program[$name]}" "$@"
}

# Prints the directory of LibTorch: the one that the caller names, or the module of python3, which is not imported.
torch_home() {
  local named=${CMAKE_PREFIX_PATH:-}
  named=${named%/share/cmake}
  if [ -n "${Torch_DIR:-}" ]; then
    echo "${Torch_DIR%/share/cmake/Torch*}"
  elif [ -f "$named/share/cmake/Torch/TorchConfig.cmake" ]; then
    echo "$named"
  else
    python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' \
      2>/dev/null || true
  fi
}

# use_prebuilt NAME: takes the program from the bundle; returns 1 if it does not start here.
use_prebuilt() {
  local name=$1 home arguments reason
  [ -x "$prebuilt/$name" ] || return 1
  home=$(torch_home)
  program[$name]=$prebuilt/$name
  libraries[$name]=$(printf '%s:' "$prebuilt/lib" ${home:+"$home/lib" "$home"/../nvidia/*/lib})/usr/local/cuda/lib64
  case $name in
    gpu_results) arguments=markdown ;;
    gpu_benchmark*) arguments=--list ;;
    *) arguments=--gtest_list_tests ;;
  esac
  # LD_BIND_NOW: a function that the machine's libraries lack is to be missed now.
  if ! reason=$(LD_BIND_NOW=1 run 60 "$name" "$arguments" 2>&1 >/dev/null); then
    say "$prebuilt/$name does not start and is built here: $(tail -1 <<<"$reason")"
    unset "program[$name]" "libraries[$name]"
    return 1
  fi
}

# configure_and_build TARGET...: with LibTorch if that is possible. Returns 124 or 137 if the time was too short. Neither
# h5feed's own program nor the examples are needed.
configure_and_build() {
  local command=(tools/scripts/build.sh gpu "$@" -- -DH5FEED_BUILD_TOOLS=OFF -DH5FEED_BUILD_EXAMPLES=OFF) home code=0
  home=$(torch_home)
  if [ -z "${CMAKE_PREFIX_PATH:-}${Torch_DIR:-}" ] && [ -n "$home" ]; then
    export CMAKE_PREFIX_PATH=$home/share/cmake
  fi
  rm -f "$no_torch"
  limited "$seconds" "${command[@]}" -DH5FEED_WITH_TORCH=AUTO || code=$?
  if [ "$code" -ne 0 ] && ! out_of_time; then
    say "once more without LibTorch"
    code=0
    limited "$seconds" "${command[@]}" -DH5FEED_WITH_TORCH=OFF || code=$?
    [ "$code" -ne 0 ] || echo "LibTorch could not be used when this was built" >"$no_torch"
  fi
  return "$code"
}

# prepare NAME...: finds programs that everything needs, in the bundle or by building them. Exits if there are none.
prepare() {
  local name code=0
  if [ -n "$prebuilt" ]; then
    for name in "$@"; do use_prebuilt "$name" || code=1; done
    [ "$code" -ne 0 ] || return 0
  fi
  case $stage in
    build | all)
      echo "== build"
      code=0
      configure_and_build "$@" || code=$?
      if [ "$code" -ne 0 ] && out_of_time; then fail "out of time while building; call it again to go on" 3; fi
      [ "$code" -eq 0 ] || fail "the programs could not be built (the reason is above)"
      ;;
  esac
  for name in "$@"; do
    [ -x "$(built_path "$name")" ] || fail "nothing is built; run tools/gpu_check.sh build first"
    program[$name]=$(built_path "$name")
    libraries[$name]=""
  done
}

# build_with_torch NAME: builds one program with LibTorch. Returns 1 with the reason in `absent`, which stays empty if
# only the time was too short.
build_with_torch() {
  if [ ! -f build/gpu/CMakeCache.txt ] && ! configure_and_build gpu_results; then
    out_of_time || absent[$1]="$1 does not start from the bundle, and the tree could not be configured"
    return 1
  fi
  if [ ! -f "$no_torch" ] && ! cmake --build build/gpu --target help | grep "$1: " >/dev/null; then
    echo "no LibTorch with CUDA was found when this was built" >"$no_torch"
  fi
  [ ! -f "$no_torch" ] || return 1
  if ! limited "$seconds" cmake --build build/gpu --target "$1"; then
    rm -f "$(built_path "$1")"
    out_of_time || absent[$1]="$1 could not be built"
    return 1
  fi
}

# Finds the programs with LibTorch, each on its own: one that cannot be built does not stop the other.
prepare_torch() {
  local name
  for name in torch_gpu_test gpu_benchmark_torch; do
    ! out_of_time || return 0
    if [ -n "$prebuilt" ] && use_prebuilt "$name"; then continue; fi
    case $stage in
      build | all)
        echo "== build $name"
        build_with_torch "$name" || true
        ;;
    esac
    if [ -x "$(built_path "$name")" ]; then
      program[$name]=$(built_path "$name")
    elif [ -f "$no_torch" ]; then
      absent[$name]=$(cat "$no_torch")
    elif [ -n "${absent[$name]:-}" ]; then
      say "${absent[$name]} (the reason is above)"
      status=1
    fi
  done
}

# Prints the version of the CUDA that the programs were compiled with.
cuda_version() {
  if [ -n "${libraries[gpu_test]:-}" ]; then
    sed -n 's/^cuda //p' "$prebuilt/facts"
  else
    sed -n 's/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' build/gpu/CMakeFiles/*/CMakeCUDACompiler.cmake | sed -n 1p
  fi
}

# Copies the programs, stripped, and the libraries that a machine with CUDA and LibTorch may lack.
make_bundle() {
  local name
  mkdir -p "$bundle/lib"
  for name in $all_programs; do
    [ -n "${program[$name]:-}" ] || continue
    strip -o "$bundle/$name" "${program[$name]}"
    ldd "${program[$name]}"
  done | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    sed -E '\,/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|resolv|cuda[^/]*|torch[^/]*|c10[^/]*)\.so|/(site|dist)-packages/|/cuda,d' |
    while read -r name; do cp -L "$name" "$bundle/lib/"; done
  printf 'commit %s\ncuda %s\n' "$commit" "$(cuda_version)" >"$bundle/facts"
  echo "written $bundle: $(du -sh "$bundle" | cut -f1)"
}
