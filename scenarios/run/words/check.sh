[ "$(grep -cx "$1" words.txt)" = 1 ] || { echo "$1 is not said once"; exit 1; }
