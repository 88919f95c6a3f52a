#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 525aae277e415e528563c0651ee893fcb8d7f01e tests/test_parcel.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_parcel.py b/tests/test_parcel.py
index 81a74a6..96a81f9 100644
--- a/tests/test_parcel.py
+++ b/tests/test_parcel.py
@@ -17,6 +17,10 @@ def test_cost_share_of_whole_numbers():
     assert cost_share(Parcel(1, cost=10), 2) == 5
 
 
+def test_cost_share_keeps_the_decimals():
+    assert cost_share(Parcel(1, cost=5), 2) == 2.5
+
+
 def test_cost_share_of_nobody():
     assert cost_share(Parcel(1, cost=5), 0) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_parcel.py
: '>>>>> End Test Output'
git checkout 525aae277e415e528563c0651ee893fcb8d7f01e tests/test_parcel.py
