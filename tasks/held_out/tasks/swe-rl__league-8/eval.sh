#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 499bdd6e5a6db2bb3c94b5c35bc2155d6eb6024e tests/test_ticket.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_ticket.py b/tests/test_ticket.py
index 6a55a65..ad06ee9 100644
--- a/tests/test_ticket.py
+++ b/tests/test_ticket.py
@@ -17,6 +17,14 @@ def test_free_is_false_for_others():
     assert not free(Ticket(20), 30)
 
 
+def test_free_for_a_child():
+    assert free(Ticket(20), 4)
+
+
+def test_free_by_price():
+    assert free(Ticket(0), 30)
+
+
 def test_sale_before_every_day():
     assert sale([Ticket(20, day=4), Ticket(20, day=5)], 2)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_ticket.py
: '>>>>> End Test Output'
git checkout 499bdd6e5a6db2bb3c94b5c35bc2155d6eb6024e tests/test_ticket.py
