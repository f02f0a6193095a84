# What launch/train.sh and launch/multinode.sh check before anything is installed; sourced by them, in the repository.

configs=videopro/configs

# Prints the file of a config: a name in the folder $configs/$1, or a YAML file of your own.
find_config() { # FOLDER NAME
    local folder=$configs/$1 name=$2 known near=""
    if [ -f "$folder/$name.yaml" ]; then
        echo "$folder/$name.yaml"
        return
    elif [[ "$name" == *.yaml || "$name" == *.yml ]] && [ -f "$name" ]; then
        echo "$name"
        return
    fi
    known=$(cd "$folder" && printf '%s\n' *.yaml | sed 's/\.yaml$//')
    # Without a Python, the names alone are listed.
    near=$("${PYTHON:-python3}" -c 'import difflib, sys
print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], n=1))' "$name" $known 2> /dev/null) || near=""
    echo "error: no config '$name' in $folder;${near:+ did you mean '$near'?} known: ${known//$'\n'/, }" \
        "(or give a .yaml file)" >&2
    return 2
}

# Prints the extras of pyproject.toml that a training needs.
training_extras() {
    case "${ACCELERATE:-}" in
        zero*) echo train,deepspeed ;;
        *) echo train ;;
    esac
}
