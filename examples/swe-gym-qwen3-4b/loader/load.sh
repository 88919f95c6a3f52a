# Run by the loader Job on its volume, /data. Settings come from settings.env.
set -eu
unset HF_HUB_OFFLINE # of the trainer's image, whose other processes download nothing
cd /data
mkdir -p tasks/train tasks/held-out models/model
swerl() { python3 -m swerl_agent.cli "$@"; }
some_unfit() { [ "$1" -eq 1 ]; } # exit code 1: malformed rows were left out, unfit tasks are in quarantine

swerl tasks import "$TRAIN_TASKS" --keep-going -o tasks/train/train.jsonl || some_unfit $?
swerl tasks import "$HELD_OUT_TASKS" --keep-going --purpose evaluation --limit "$HELD_OUT_LIMIT" \
  -o tasks/held-out/held-out.jsonl || some_unfit $?
swerl tasks check tasks/train --slice "$CHECK_SLICE" --output check || some_unfit $?
cp check/quarantine.jsonl tasks/train/quarantine.jsonl

if [ -d "$MODEL" ]; then
  cp -r "$MODEL"/. models/model/
else
  # One --include for each pattern: hf takes further values for names of files.
  hf download "$MODEL" --revision "$MODEL_REVISION" --local-dir models/model --exclude '*/*' --include '*.json' \
    --include '*.safetensors' --include '*.txt' --include '*.model' --include '*.jinja' --include '*.tiktoken'
fi
swerl tasks images tasks/train tasks/held-out >images.txt
python3 /loader/publish.py images.txt swe-gym-images
