echo 1..101
missing=0
for number in $(seq 0 100); do
  if grep -qsx '[a-z -]*' "words/$number"; then
    echo "ok $((number + 1)) - the word for $number"
  else
    echo "not ok $((number + 1)) - the word for $number"
    missing=$((missing + 1))
  fi
done
[ $missing = 0 ]
