#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 741f88ccbe050b01fbe75333f0bd7b0ac8a473f3 tests/test_team.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_team.py b/tests/test_team.py
index f40cd24..f3c5441 100644
--- a/tests/test_team.py
+++ b/tests/test_team.py
@@ -19,6 +19,10 @@ def test_weak_of_one_player():
     assert weak([Player("ann", 5)]) == 5
 
 
+def test_weak_is_the_smallest_skill():
+    assert weak(TEAM) == 5
+
+
 def test_senior_above_the_age():
     assert [player.name for player in senior(TEAM, 28)] == ["bob"]
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_team.py
: '>>>>> End Test Output'
git checkout 741f88ccbe050b01fbe75333f0bd7b0ac8a473f3 tests/test_team.py
