grep -q goodbye main.sh || { echo "main.sh does not say goodbye"; exit 1; }
