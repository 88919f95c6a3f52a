#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 9f9c634ed11e97ddaf5b5d0cc9cfb273ff39bab6 tests/test_ticket.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_ticket.py b/tests/test_ticket.py
index 651cb94..ad06ee9 100644
--- a/tests/test_ticket.py
+++ b/tests/test_ticket.py
@@ -5,6 +5,10 @@ def test_seat_count_of_nothing():
     assert seat_count([]) == 0
 
 
+def test_seat_count_counts_every_seat():
+    assert seat_count(["a", "b", "c"]) == 3
+
+
 def test_free_for_a_child_with_a_free_ticket():
     assert free(Ticket(0), 4)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_ticket.py
: '>>>>> End Test Output'
git checkout 9f9c634ed11e97ddaf5b5d0cc9cfb273ff39bab6 tests/test_ticket.py
