twice=$(sort words.txt | uniq -d)
[ -z "$twice" ] || { echo "said twice: $twice"; exit 1; }
