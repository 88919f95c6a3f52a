#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 6eec184ba41a564142e51093ce4e8bb0547b36ab tests/test_parcel.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_parcel.py b/tests/test_parcel.py
index 6ea860d..96a81f9 100644
--- a/tests/test_parcel.py
+++ b/tests/test_parcel.py
@@ -31,3 +31,11 @@ def test_bulk_is_false_for_a_small_parcel():
 
 def test_bulk_is_true_for_a_long_and_heavy_parcel():
     assert bulk(Parcel(30, 120), 20)
+
+
+def test_bulk_by_weight_alone():
+    assert bulk(Parcel(30), 20)
+
+
+def test_bulk_by_length_alone():
+    assert bulk(Parcel(1, 120), 20)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_parcel.py
: '>>>>> End Test Output'
git checkout 6eec184ba41a564142e51093ce4e8bb0547b36ab tests/test_parcel.py
