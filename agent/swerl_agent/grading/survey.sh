# What Python and pytest load before any test: start-up files, plugins by entry point, configuration and hooks.
#
# Read by `grade.sh`, which takes a survey before the eval script and another when its installation steps have ended.
# Builtins alone do it: an installation step may have replaced every program.

# Sets `folders` to those in which Python may look for such files: of each installation and of the work tree.
site_folders() {
  local prefix path word words programs
  local -A seen=()
  folders=()
  IFS=$' \t\n' read -rd '' -a words < "$scratch/eval.sh"
  IFS=: read -ra programs <<< "$PATH"
  local prefixes=(/usr /usr/local /opt/* "$root"/{.venv,venv,env} "$root"/.{tox,nox}/*)
  prefixes+=("$home/.local" "$home"/.pyenv/versions/*)
  for word in "${programs[@]}" "${words[@]}"; do
    [[ $word != /*/bin && $word != /*/bin/* ]] || prefixes+=("${word%/bin*}")
  done
  for prefix in "${prefixes[@]}"; do
    for path in "$prefix"{,/envs/*}/lib{,64}/python*{,/site-packages,/dist-packages}; do
      [[ -n ${seen[$path]+x} || ! -d $path || -L ${path%/python*} ]] || { seen[$path]=1 && folders+=("$path"); }
    done
  done
  folders+=("$root" "$root"/{src,lib,python})
}

# Sets `test_places` to the folders from whose `conftest.py` and configuration pytest takes what it runs.
find_test_places() {
  local pattern path
  local -A seen=([$root]=1)
  while IFS= read -r pattern; do
    path=${pattern%%\**}
    while [[ $path == */* ]]; do
      path=${path%/*}
      [ -z "$path" ] || seen[$root/$path]=1
    done
  done < "$scratch/targets"
  path=$root
  while [[ $path == /*/* ]]; do path=${path%/*} && seen[$path]=1; done
  test_places=("${!seen[@]}" /)
}

# Adds to `found` the lines of a file and how many there are.
survey_lines() { # file
  local line lines
  [[ -f $1 && -r $1 ]] || return 0
  mapfile -n 5000 lines 2> /dev/null < "$1"
  found["$1: ${#lines[@]} lines"]=1
  for line in "${lines[@]}"; do
    line=${line%$'\n'}
    [[ $line != *[![:space:]]* ]] || found["$1: $line"]=1
  done
}

# Adds what `*.pth` files of a folder execute, and the folders outside the work tree that they add to sys.path.
survey_pth() { # folder
  local file line lines
  for file in "$1"/*.pth; do
    [[ -f $file ]] || continue
    mapfile -n 5000 lines 2> /dev/null < "$file"
    for line in "${lines[@]}"; do
      line=${line%$'\n'} line=${line%$'\r'}
      if [[ $line == import[[:space:]]* ]]; then
        found["$file: $line"]=1 imports+=" $line "
      elif [[ $line == /* && $line != "$root" && $line != "$root"/* ]]; then
        found["$file: $line"]=1 added+=("$line")
      elif [[ $line == "$root"/* ]]; then
        added+=("$line")
      fi
    done
  done
}

# Adds the plugins that runners load by the entry points of a folder's distributions.
survey_entry_points() { # folder
  local file line lines section
  for file in "$1"/*{.[eE][gG][gG],-}[iI][nN][fF][oO]/entry_points.txt "$1"/*.egg/EGG-INFO/entry_points.txt; do
    [[ -f $file ]] || continue
    mapfile -n 5000 lines 2> /dev/null < "$file"
    section=
    for line in "${lines[@]}"; do
      line=${line//[[:space:]]/}
      [[ $line != \[*\] ]] || section=$line
      [[ $line != *=* || $section != \[@(pytest11|tox|nose*)\] ]] || found["${file%/*/*}/*: $section $line"]=1
    done
  done
}

# Adds modules of a folder that Python imports at its start, or in the place of one of its own or of the runner's.
survey_modules() { # folder
  local path name
  for path in "$1"/*; do
    name=${path##*/}
    [[ $name == *.py || $name == *.so || -d $path ]] || continue
    name=${name%%.*}
    if [[ $name == @(site|user)customize ]]; then
      found["$path: a module"]=1
      survey_lines "$path"
      survey_lines "$path/__init__.py"
    elif [[ -n ${reserved[$name]+x} ]]; then
      found["$path: a module"]=1
    elif [[ $path == *-packages/*.py && $imports =~ (^|[^A-Za-z0-9_])"$name"([^A-Za-z0-9_]|$) ]]; then
      survey_lines "$path"
    fi
  done
}

# Sets `found`, whose keys are `<file>: <line>`.
declare -A found=() surveyed=()
survey() {
  local folder name imports= added=() folders=() test_places=()
  local nullglob extglob
  nullglob=$(shopt -p nullglob) extglob=$(shopt -p extglob)
  shopt -s nullglob extglob
  found=()
  site_folders
  for folder in "${folders[@]}"; do survey_pth "$folder"; done
  for folder in "${folders[@]}" "${added[@]}"; do
    survey_entry_points "$folder"
    survey_modules "$folder"
  done
  find_test_places
  for folder in "${test_places[@]}"; do
    for name in conftest.py {,.}pytest.{ini,toml} tox.ini setup.cfg pyproject.toml; do survey_lines "$folder/$name"; done
  done
  survey_lines /etc/ld.so.preload
  $nullglob
  $extglob
}

# Adds to `reserved` the modules of the image's pytest plugins: pytest imports them by their names.
reserve_plugins() {
  local folder entry folders=()
  local -A found=()
  local nullglob extglob
  nullglob=$(shopt -p nullglob) extglob=$(shopt -p extglob)
  shopt -s nullglob extglob
  site_folders
  for folder in "${folders[@]}"; do survey_entry_points "$folder"; done
  for entry in "${!found[@]}"; do
    [[ $entry != *": [pytest11] "*=* ]] || { entry=${entry##*=} && reserved[${entry%%[.:[]*}]=1; }
  done
  $nullglob
  $extglob
}

# Reports what installation steps left of it.
report_left() {
  local entry number=0
  survey
  for entry in "${!found[@]}"; do
    [[ -z ${surveyed[$entry]+x} ]] || continue
    ((++number <= 300)) || break
    printf 'swerl-grading %s left %s\n' "$nonce" "${entry//[^[:print:]]/?}"
  done
}
