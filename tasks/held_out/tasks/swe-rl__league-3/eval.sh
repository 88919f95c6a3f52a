#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 322887c0a09a363cf5f131a68c45c79a25fc7ffd tests/test_team.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_team.py b/tests/test_team.py
index aaec753..f3c5441 100644
--- a/tests/test_team.py
+++ b/tests/test_team.py
@@ -25,3 +25,7 @@ def test_weak_is_the_smallest_skill():
 
 def test_senior_above_the_age():
     assert [player.name for player in senior(TEAM, 28)] == ["bob"]
+
+
+def test_senior_exactly_at_the_age():
+    assert [player.name for player in senior(TEAM, 30)] == ["bob"]
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_team.py
: '>>>>> End Test Output'
git checkout 322887c0a09a363cf5f131a68c45c79a25fc7ffd tests/test_team.py
